"""`relight doctor`: one module for each thing it examines."""
