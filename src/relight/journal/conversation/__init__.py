"""Decisions about a conversation: replies, prompts, and excerpts for display."""
