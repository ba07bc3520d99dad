"""G19: no code runs from checkpoint bytes. G27: what small bytes can claim is bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from zstandard import ZstdCompressor

from relight.journal.codec import VERSION, Undecodable, decode_changes, decode_head, encode_changes
from relight.values.step import Changes
from tests.support.child_processes import ROOT
from tests.support.figures import Figure

BOUND_MB = 256


def decoder(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]).strip(os.pathsep)
    return subprocess.run(
        [sys.executable, "-m", "tests.support.programs.decoder", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.guarantee("G19")
def test_no_stored_bytes_import_execute_or_reach_out(sample: Any, figure: Figure) -> None:
    count = sample(10_000, proof=5_000_000, teeth=4_000)
    run = decoder("19", str(count))
    assert run.returncode == 0, run.stderr[-2000:]
    decoded, refused = map(int, run.stdout.split())
    assert decoded > count // 40 and refused > count // 4, "the mutations do not reach both sides"
    figure(
        "G19", f"{count} mutated bodies ({decoded} decoded, {refused} refused), 0 imports, executions or connections"
    )


DEPTH = 1_000_000
MANY = 8_000_000
PLAIN, PACKED = bytes((VERSION, 0)), bytes((VERSION, 1))
ARRAY, ONE = b"\x81\xa8messages\xdd", b"\0\0\0\1"


def packed(*chunks: tuple[bytes, int], declared: int | None = None) -> bytes:
    """A body of repeated chunks, compressed without ever holding it whole."""
    size = sum(len(chunk) * times for chunk, times in chunks)
    compressor, parts = ZstdCompressor().compressobj(size=size), []
    for chunk, times in chunks:
        block = max(1, 65536 // len(chunk))
        for _ in range(times // block):
            parts.append(compressor.compress(chunk * block))
        parts.append(compressor.compress(chunk * (times % block)))
    parts.append(compressor.flush())
    return PACKED + min(size if declared is None else declared, 2**32 - 1).to_bytes(4, "big") + b"".join(parts)


def nested_extensions(depth: int) -> bytes:
    data = b"\x90"
    for _ in range(depth):
        pairs = b"\x91\x92\xa1k" + data
        data = b"\xc9" + len(pairs).to_bytes(4, "big") + b"\x03" + pairs
    return data


def bombs() -> dict[str, bytes]:
    """Small bodies that want to be large."""
    many, number = ARRAY + MANY.to_bytes(4, "big"), (10**7).to_bytes(4, "big")
    return {
        "declares four gigabytes": packed((b"x", 1), declared=2**32 - 1),
        "declares ten bytes, holds a gigabyte": packed((b"\0", 2**30), declared=10),
        "a quarter gigabyte of zeros": packed((b"\0", 256 * 1024**2)),
        "eight million nothings": packed((many, 1), (b"\xc0", MANY)),
        "eight million empty maps": packed((many, 1), (b"\x80", MANY)),
        "two million empty maps": packed((ARRAY + (2 * 10**6).to_bytes(4, "big"), 1), (b"\x80", 2 * 10**6)),
        "fifteen million empty maps": packed((ARRAY + (15 * 10**6).to_bytes(4, "big"), 1), (b"\x80", 15 * 10**6)),
        "an array of four billion": PLAIN + ARRAY + b"\xff\xff\xff\xff",
        "a map of four billion": PLAIN + b"\xdf\xff\xff\xff\xff",
        "a text of four billion": PLAIN + ARRAY + ONE + b"\xdb\xff\xff\xff\xff",
        "an extension of four billion": PLAIN + ARRAY + ONE + b"\xc9\xff\xff\xff\xff\x03",
        "nested arrays": packed((ARRAY + ONE, 1), (b"\x91", DEPTH)),
        "nested maps": packed((ARRAY + ONE, 1), (b"\x81\xa1a", DEPTH)),
        "nested extensions": PLAIN + ARRAY + ONE + nested_extensions(3_000),
        "a number of ten million bytes": packed((ARRAY + ONE + b"\xc9" + number + b"\x01", 1), (b"\x7f", 10**7)),
    }


@pytest.mark.guarantee("G27")
def test_bombs_stay_small(tmp_path: Path, figure: Figure) -> None:
    paths = []
    for name, body in bombs().items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(body)
    run = decoder("bombs", *map(str, paths))
    assert run.returncode == 0, f"{run.stdout}{run.stderr[-1000:]}"
    megabytes = [int(line.split()[0]) for line in run.stdout.splitlines()]
    assert len(megabytes) == len(paths)
    assert max(megabytes) < BOUND_MB, run.stdout
    figure(
        "G27", f"{len(paths)} bombs of bytes, depth and counts, {max(megabytes)} MB at most, the interpreter included"
    )


def test_what_shrinks_beyond_the_bound_is_stored_so_that_it_can_be_read() -> None:
    changes = Changes(messages=[{"role": "user", "content": "x" * 20_000_000}])
    assert decode_changes(encode_changes(changes)) == changes


@pytest.mark.parametrize(
    "body",
    [b"", b"\x01", b"\x00\x00", b"\x01\x02x", b"\x01\x00", b"\x01\x00\xc1", b"\x01\x01\0\0\0\x01x", b"\x02\x00\x80"],
    ids=range(8),
)
def test_what_no_writer_of_ours_wrote_is_refused(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_changes(body)
    with pytest.raises(Undecodable):
        decode_head(body)


def test_a_newer_stored_form_is_refused_by_its_number() -> None:
    with pytest.raises(Undecodable, match="newer"):
        decode_changes(b"\x63\x00\x80")


@pytest.mark.parametrize("code", [0, 4, 5, 127, 128, 255])
def test_an_extension_that_nobody_defined_is_refused(code: int) -> None:
    with pytest.raises(Undecodable):
        decode_changes(b"\x01\x00\x81\xa8messages\x91\xc7\x01" + bytes((code,)) + b"x")
