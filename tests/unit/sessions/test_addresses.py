"""An address of a store is shown without its password, wherever in it the password stands."""

from __future__ import annotations

import pytest

from relight.errors import UnknownStore
from relight.text.safe import safe_address

PASSWORD = "hunter2-not-real"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{PASSWORD}@db:5432/agents",
        f"postgresql://ada:{PASSWORD}@[::1]/agents?sslmode=require",
        f"postgresql:///agents?host=/run/pg&password={PASSWORD}",
        f"postgresql:///agents?host=/run/pg&PASSWORD={PASSWORD}&user=ada",
        f"postgresql:///agents?sslpassword={PASSWORD}",
        f"redis://:{PASSWORD}@cache/0",
        f"redis://default:a@b:{PASSWORD}@cache/0",
        f"unix:///run/redis.sock?password={PASSWORD}&db=1",
        f"mysql://ada:{PASSWORD}@db/x",
        f"s3://bucket?secret_access_key={PASSWORD}",
    ],
)
def test_no_form_of_an_address_shows_its_password(url: str) -> None:
    """S-M4."""
    shown = safe_address(url)
    assert PASSWORD not in shown and "***" in shown
    assert PASSWORD not in str(UnknownStore(url, known=["sqlite:///x"]))


@pytest.mark.parametrize("url", ["sqlite:///p.db", "postgresql://ada@db/agents?sslmode=require", "memory:"])
def test_an_address_without_a_password_is_shown_as_it_is(url: str) -> None:
    assert safe_address(url) == url
