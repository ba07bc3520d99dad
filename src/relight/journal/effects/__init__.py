"""Decisions about tool calls and other effects: what ran, what is in doubt, who approves. Pure."""
