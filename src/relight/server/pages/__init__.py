"""The dashboard's pages: view structs computed from the library's values, and routes that render them. Read-only."""
