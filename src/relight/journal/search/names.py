"""Which texts of a session a search covers, the same for every store."""

from __future__ import annotations

from unicodedata import normalize

from relight.values.session import Identity


def named_text(identity: Identity) -> str:
    """All texts by which a session is found, as they were given, in one form of Unicode."""
    return _composed(_joined(identity))


def asked(text: str) -> str:
    """The text to look for in `searchable`, however its accents were typed."""
    return _composed(text).casefold()


def _composed(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def _joined(identity: Identity) -> str:
    labels = [f"{key}={value}" for key, value in identity.labels.items()]
    names = [identity.name, identity.former_name]
    parts = [*names, identity.id, identity.key, identity.task, identity.directory, identity.agent, *labels]
    return "\n".join(part for part in parts if part)


def searchable(identity: Identity) -> str:
    """The same, case folded, for a store that looks for parts of texts: each word with accents follows without them."""
    text = named_text(identity).casefold()
    if text.isascii():
        return text
    from relight.journal.search.words import words_of  # compiles expressions: not at the start of every program

    return "\n".join([text, *(word for word in dict.fromkeys(words_of(text)) if word not in text)])


def older_searchable(identity: Identity) -> str:
    """The same as version 0.1.0 stores it: without those words."""
    return _joined(identity).casefold()
