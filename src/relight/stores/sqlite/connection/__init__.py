"""The database file: opened, read from several threads, safe across forks, its write-ahead log checked."""
