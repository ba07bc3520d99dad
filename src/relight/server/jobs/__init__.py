"""What a server does besides answering: housekeeping, daily verification, callbacks."""
