"""Entry points of processes that relight starts itself, and what they inherit."""
