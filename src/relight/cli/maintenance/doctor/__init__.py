"""`relight doctor`: one module for each subject."""
