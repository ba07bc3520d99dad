"""Where blobs are kept off the machine: a shared directory, the store's own database, object storage."""
