"""Blobs in the store's own PostgreSQL database."""
