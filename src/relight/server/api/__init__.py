"""The HTTP API, one module per resource. Each route is a thin layer over a method of the library."""
