"""Content-addressed storage: objects by hash in append-only segments that several processes share."""
