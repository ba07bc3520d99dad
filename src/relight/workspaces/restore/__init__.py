"""Restores: plan, log, carry out; a restore killed anywhere is finished or undone by the next one."""
