"""How secrets are recognised: by exact value, by type, by randomness; and what is never one.

`relight.journal.redaction.redactor` combines these. Nothing here reads the environment, a file or a clock.
"""
