"""The HTTP server: API, dashboard pages, event streams and metrics. An entry point, like the command line."""
