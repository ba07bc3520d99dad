"""Decisions about a conversation: replies, prompts, what a person is shown of it. Pure."""
