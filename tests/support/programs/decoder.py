"""Decodes what it is given while an audit hook ends it at the first sign of code: an import, exec, socket, process.

Usage: decoder SEED COUNT, bodies made here from valid ones by mutation; or decoder bombs FILE..., without the hook and
with the memory it has needed so far told after each.
"""

from __future__ import annotations

import collections
import os
import resource
import sys
from random import Random
from typing import Any

import msgspec
from zstandard import ZstdDecompressor

import relight.wiring  # noqa: F401  installs the native formats
from relight.journal import extensions
from relight.journal.chain import unseal_head, unseal_identity
from relight.journal.codec import VERSION, Undecodable, decode_changes, decode_open, encode_changes
from relight.journal.fold import Fold
from relight.journal.formats.registry import formats
from relight.testing.conversation import lint
from relight.values.call import Intent, Outcome
from relight.values.status import StatusChange
from relight.values.step import Carried, Changes, Step
from tests.support.normalise import normalise
from tests.support.processes import peak_megabytes

FORBIDDEN = ("exec", "compile", "import", "socket", "subprocess", "os.system", "os.exec", "os.posix_spawn", "os.fork",
             "ctypes", "pickle", "marshal", "code.__new__", "function.__new__", "shutil", "os.spawn", "open",
             "sys._getframe", "glob")  # fmt: skip
BOUND_BYTES = 4 * 1024**3


def guard(event: str, arguments: Any) -> None:
    """End at the first forbidden event."""
    if event.startswith(FORBIDDEN) or event == "exec":
        os.write(2, f"audit: {event} {arguments!a:.200}\n".encode())
        os._exit(99)


def originals() -> list[bytes]:
    """Bodies that use every field."""
    call = {"id": "c", "type": "function", "function": {"name": "os.system", "arguments": '{"a": 1}'}}
    changes = [
        Changes(messages=[{"role": "user", "content": "x" * 300}]),
        Changes(messages=[{"role": "assistant", "content": None, "tool_calls": [call]}]),
        Changes(
            messages=[{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]}]
        ),
        Changes(messages=[{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}]),
        Changes(state={"\ud800": 2**80, "__reduce__": ["os.system", ["id"]]}, unset=["k"]),
        Changes(intents=[Intent(id="c", name="n", effect="once", asked_seq=2)]),
        Changes(outcomes=[Outcome(id="c", asked_seq=2, content={"deep": [[[1]]]})]),
        Changes(status=StatusChange(status="completed", result={"n": 1.5}), partial=[b"x".hex()]),
        Changes(carried=Carried(once={"k": 1}, state={"s": None}), answer=["q", "a"], note={"n": 1}),
    ]
    return [encode_changes(one) for one in changes]


def mutate(rng: Random, body: bytes) -> bytes:
    """A few blows, on the packed bytes or on what is inside them."""
    data = bytearray(body)
    if rng.random() < 0.5 and len(data) > 6 and data[1] == 1:
        data = bytearray(bytes((VERSION, 0)) + ZstdDecompressor().decompress(bytes(data[6:])))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data)) if data else 0
        blow = rng.randrange(5)
        if blow == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif blow == 1 and data:
            data[at] = rng.choice([0xC1, 0xC7, 0xC9, 0xD4, 0xDD, 0xDF, 0xFF, 0x00, 0x91, 0x81])
        elif blow == 2:
            del data[at : at + rng.randint(1, 9)]
        elif blow == 3:
            data[at:at] = rng.randbytes(rng.randint(1, 9))
        else:
            data[at:at] = bytes((0xC7, rng.randrange(8), rng.randrange(6))) + rng.randbytes(8)
    return bytes(data)


def digest_fully(body: bytes) -> str:
    """Decode, fold, read and repair; what a reader of a store would do."""
    for unseal in (unseal_head, unseal_identity, decode_open):
        try:
            unseal(body)
        except Undecodable:
            continue
    try:
        changes = decode_changes(body)
    except Undecodable:
        return "refused"
    step = Step(session="s", seq=3, kind="message", at_us=1, attempt=1, base=2, since=0, message_count=0, turns=0,
                open=(), label=None, key=b"", digest=b"", body=b"")  # fmt: skip
    fold = Fold()
    messages = [message for message in changes.messages if isinstance(message, dict)]
    fold.apply(step, msgspec.structs.replace(changes, messages=messages))
    for format in formats():
        format.read(messages)
        lint(normalise(messages, format=format), format)
    return "decoded"


def decode_only(body: bytes) -> str:
    """What a store does before it knows how much there is."""
    try:
        decode_changes(body)
    except Undecodable:
        return "refused"
    return "decoded"


def main() -> None:
    """See above."""
    extensions.installed().more_formats()  # of other distributions: which they are depends on no stored byte
    for body in originals():
        digest_fully(body)
        digest_fully(body[:-3])
    if sys.argv[1] == "bombs":
        resource.setrlimit(resource.RLIMIT_AS, (BOUND_BYTES, BOUND_BYTES))
        for path in sys.argv[2:]:
            with open(path, "rb") as file:
                said = decode_only(file.read())
            print(peak_megabytes(), said, path)
        return
    rng, counts, kept = Random(int(sys.argv[1])), collections.Counter[str](), originals()
    sys.addaudithook(guard)
    for _ in range(int(sys.argv[2])):
        body = rng.randbytes(rng.randint(0, 60)) if rng.random() < 0.2 else mutate(rng, rng.choice(kept))
        counts[digest_fully(body)] += 1
    os.write(1, f"{counts['decoded']} {counts['refused']}\n".encode())


if __name__ == "__main__":
    main()
