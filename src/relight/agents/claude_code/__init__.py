"""Claude Code: one transcript per session, a tree of JSON lines; hooks; session ids of our choice."""
