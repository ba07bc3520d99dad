"""What pages and clients follow as it happens: event streams and the overview."""
