"""Text as people read it: numbers and statuses in words, and text that a terminal or a browser cannot obey."""
