"""Pools whose content is in a blob store, with a local cache."""
