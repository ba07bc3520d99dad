"""How secrets are recognised: by their exact value, by their type, by how random they look; and what is never one.

`relight.journal.redaction.redactor` puts these together. Nothing here reads the environment, a file or a clock.
"""
