"""What an operator does to a session that another process may own: answer, settle, archive, remove."""
