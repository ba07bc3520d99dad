"""Live data for pages and API clients: event streams, the overview of all sessions, cached folds."""
