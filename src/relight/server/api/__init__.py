"""The HTTP interface, one file a noun. Each route is a few lines over a verb of the library."""
