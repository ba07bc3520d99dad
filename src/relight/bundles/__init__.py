"""Sessions in one file, for another machine: export, check, import."""
