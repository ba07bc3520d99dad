"""The server: the same verbs over HTTP, the pages, the events, the metrics. A door, like the command line."""
