"""What an older relight wrote a newer one reads: golden bytes of every stored form, upcasters one after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relight.journal import codec
from relight.journal.chain import seal, step_digest, unseal_head, unseal_identity
from relight.journal.codec import Undecodable, decode_changes, encode_changes
from relight.values.call import Intent, OpenEffect, Outcome
from relight.values.lease import Instant, Lease, Owner
from relight.values.session import Head, Identity, Parent
from relight.values.status import Failure, StatusChange
from relight.values.step import AttemptStart, Carried, Changes, Step
from relight.values.usage import Usage

GOLDEN = Path(__file__).parent / "golden"


def values() -> dict[str, Any]:
    """One of everything that is stored, with every field set."""
    effect = OpenEffect(id="c", name="t", effect="once", asked_seq=2, intent_seq=3, started_us=4)
    owner = Owner(id="o", host="h", boot="b", pid_namespace="n", pid=7, pid_start=8)
    changes = Changes(
        messages=[{"role": "user", "content": ["x", 1, 2.5, None, True, {"é": "☃"}]}],
        state={"k": [1, {"v": 2}]},
        unset=["gone"],
        intents=[Intent(id="c", name="t", effect="probe", asked_seq=2)],
        outcomes=[Outcome(id="c", asked_seq=2, status="error", content={"e": 1}, synthetic=True)],
        usage=Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, cost=0.5),
        status=StatusChange(
            status="failed", reason="r", failure=Failure(kind="exception", text="t", fields={"n": 1}), wake_us=9
        ),
        attempt=AttemptStart(number=2, resumed_from=5, reason="why", owner="pid 1", rung="native"),
        partial=[{"p": 1}],
        tools={"t": "once(x)"},
        answer=["q", "a"],
        note={"n": [1]},
        carried=Carried(
            state={"s": 1}, once={"k": "r"}, open=[Intent(id="k", name="k", effect="once")], answers={"q": 1}
        ),
    )
    return {
        "changes": changes,
        "changes_packed": Changes(messages=[{"role": "user", "content": "long " * 100}]),
        "changes_odd": Changes(messages=[{"\ud800": 2**80}], status=StatusChange(status="failed", reason="\udce9")),
        "head": Head(
            session="s", seq=9, head=7, digest=b"d" * 32, since=3, message_count=4, turns=2, open=(effect,),
            status="waiting", reason="asks", question="?", wake_us=1, attempt=2, resumed_from=5,
            usage=Usage(input_tokens=1), size_bytes=100, said="hello", updated_us=6, ended_us=7, epoch=3,
            lease=Lease(owner=owner, deadline=Instant(timeline="boot", us=5), seconds=30.0),
        ),
        "identity": Identity(
            id="s", name="n", key="k", agent="a", provider="p", model="m", task="t", labels={"l": "v"},
            metadata={"m": [1]}, parent=Parent(session="q", seq=3), command=["c"], directory="/d", runtime="process",
            workspace={"w": "/w"}, created_us=1,
        ),
    }  # fmt: skip


def encoded(value: Any) -> bytes:
    return encode_changes(value) if isinstance(value, Changes) else seal(value)


def decoded(name: str, data: bytes) -> Any:
    if name.startswith("changes"):
        return decode_changes(data)
    return unseal_head(data) if name == "head" else unseal_identity(data)


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=(bytes,))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v*.bin")), ids=lambda path: path.stem)
def test_every_stored_form_that_was_ever_written_is_read(path: Path) -> None:
    name = path.stem.partition("-")[2]
    assert plain(decoded(name, path.read_bytes())) == plain(values()[name])


def test_there_is_golden_data_for_the_present_form() -> None:
    present = {path.stem for path in GOLDEN.glob(f"v{codec.VERSION}-*.bin")}
    assert present == {f"v{codec.VERSION}-{name}" for name in values()}


def test_the_digest_of_a_step_is_what_it_always_was() -> None:
    """A digest that is computed differently would make every stored session look damaged."""
    effect = OpenEffect(id="c", name="t", effect="once", asked_seq=2, intent_seq=3, started_us=4)
    step = Step(session="s", seq=2, kind="message", at_us=3, attempt=1, base=1, since=0, message_count=1, turns=0,
                open=(effect,), label="l", key=b"12345678", digest=b"", body=b"body")  # fmt: skip
    known = json.loads((GOLDEN / "digest.json").read_text(encoding="utf-8"))
    assert step_digest(b"\0" * 32, step).hex() == known["step"]


def test_upcasters_are_applied_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a later version would have it: form 1 kept the partial result under another name, form 2 not in a list."""
    old = {"messages": [{"role": "user", "content": "x"}], "half": 7}
    body = bytes((1, 0)) + msgspec.msgpack.encode(old)

    def from_1(data: dict[str, Any]) -> dict[str, Any]:
        return {**{key: value for key, value in data.items() if key != "half"}, "partial": data["half"]}

    def from_2(data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "partial": [data["partial"]]}

    monkeypatch.setattr(codec, "VERSION", 3)
    with monkeypatch.context() as registry:
        registry.setitem(codec.UPCASTERS, 1, from_1)
        registry.setitem(codec.UPCASTERS, 2, from_2)
        changes = decode_changes(body)
        assert (list(changes.messages), list(changes.partial)) == ([{"role": "user", "content": "x"}], [7])
    with pytest.raises(Undecodable, match="stored form 1"):
        decode_changes(body)


def write_golden() -> None:
    """Only for a new version: what is there already is never written again."""
    GOLDEN.mkdir(exist_ok=True)
    for name, value in values().items():
        path = GOLDEN / f"v{codec.VERSION}-{name}.bin"
        if not path.exists():
            path.write_bytes(encoded(value))


if __name__ == "__main__":
    write_golden()
