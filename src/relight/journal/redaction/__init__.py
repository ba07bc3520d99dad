"""Redaction: which fields are redacted, and what a secret looks like. Pure."""
