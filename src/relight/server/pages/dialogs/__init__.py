"""Confirmation dialogs: what an action would do, shown before it is done; one module for each kind of action."""
