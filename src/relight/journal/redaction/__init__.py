"""Redaction: which fields are redacted, and how secrets are recognised."""
