"""Conversion of a conversation between agents, through the neutral view: pure code, one reader and writer per agent."""
