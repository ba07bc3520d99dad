"""Bundles of a few kilobytes that say they are small and are not: by chunks, by directories, by their own size.

As a program (`KIND DIRECTORY`): take one in as a version did that checked neither, then do all that reads it, and print
what each said and the most memory that was used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import relight
from relight.errors import RelightError
from relight.journal import bundle
from relight.journal.chain import step_digest
from relight.journal.codec import decode_changes, encode_changes
from relight.values.session import GENESIS
from relight.values.snapshot import Entry, SnapshotRecord
from relight.workspaces.manifest import Manifests
from relight.workspaces.pool import objects
from tests.support.processes import peak_megabytes

KINDS = ("chunks", "tree", "honest", "longer")


def build(kind: str, directory: Path) -> Path:
    """A bundle of one session whose files are a bomb."""
    workspace = directory / "seed"
    workspace.mkdir(parents=True)
    (workspace / "a").write_text("x")
    with relight.open(directory / "seed.db") as rl:
        with rl.session("x", workspace=workspace) as s:
            s.append({"role": "user", "content": "x"})
        rl.history.export("x", str(directory / "seed.relight"))
    with (directory / "seed.relight").open("rb") as file:
        frames = list(bundle.frames(file, (directory / "seed.relight").stat().st_size))
    stored: list[bytes] = []
    snapshot = _planted(kind, stored)
    out = directory / f"{kind}.relight"
    manifest, *steps = naming(frames, snapshot, session=f"{KINDS.index(kind):032x}", name=f"bomb-{kind}")
    with out.open("wb") as file:
        writer = bundle.Writer(file)
        assert isinstance(manifest, bundle.Manifest)
        writer.manifest(manifest)
        for data in stored:
            writer.object(0, data)
        for step in steps:
            assert isinstance(step, bundle.StepRow)
            writer.step(step)
        writer.end(None)
    return out


def naming(
    frames: Sequence[object], snapshot: str, *, session: str, name: str
) -> list[bundle.Manifest | bundle.StepRow]:
    """Manifest and steps of one session, computed anew so that every step with files names this snapshot."""
    manifest = frames[0]
    assert isinstance(manifest, bundle.Manifest)
    identity, head = bundle.read_part(manifest.parts[-1])
    identity = msgspec.structs.replace(identity, id=session, name=name)
    digest, steps = GENESIS, list[bundle.StepRow]()
    for one in frames:
        if isinstance(one, bundle.StepRow):
            row = one
            if one.snapshots:
                said = msgspec.structs.replace(decode_changes(one.body), snapshot={manifest.roots[0]: snapshot})
                row = msgspec.structs.replace(one, body=encode_changes(said), snapshots=[(0, snapshot)])
            digest = step_digest(digest, bundle.read_step(identity.id, row))
            steps.append(msgspec.structs.replace(row, digest=digest))
    parts = [bundle.part_row(identity, msgspec.structs.replace(head, session=session, digest=digest))]
    return [bundle.Manifest(format=1, created_us=1, parts=parts, roots=manifest.roots), *steps]


def _planted(kind: str, stored: list[bytes]) -> str:
    def put(data: bytes) -> bytes:
        stored.append(data)
        return objects.digest(data)

    if kind == "tree":
        tree = _directories(put)
    elif kind == "longer":
        entry = Entry(name=b"a.txt", kind="file", mode=0o644, ref=put(b"longer than it says"), size_bytes=3)
        tree = put(objects.encode_pages([entry])[0][1])
    else:
        chunk, count = put(bytes(objects.CHUNK_BYTES)), 60_000
        big = put(objects.encode_chunks([chunk] * count))
        size = 10 if kind == "chunks" else count * objects.CHUNK_BYTES
        tree = put(objects.encode_pages([Entry(name=b"a.txt", kind="big", mode=0o644, ref=big, size_bytes=size)])[0][1])
    record = SnapshotRecord(tree=tree, mode=0o755, files=1, size_bytes=10, skipped=0)
    return objects.snapshot_id(put(objects.encode_snapshot(record)))


def _directories(put: Callable[[bytes], bytes]) -> bytes:
    """1.6 billion names in a few objects."""
    leaf = put(b"x")
    entries = [Entry(name=b"f%04d" % one, kind="file", mode=0o644, ref=leaf, size_bytes=1) for one in range(200)]
    ref = b""
    for _ in range(4):
        refs = [put(data) for _, data in objects.encode_pages(entries)]
        ref = refs[0] if len(refs) == 1 else put(objects.encode_index(refs))
        entries = [Entry(name=b"d%04d" % one, kind="dir", mode=0o755, ref=ref) for one in range(200)]
    return ref


def main(kind: str, directory: Path) -> None:
    made = build(kind, directory)
    checked = Manifests.check
    with relight.open(directory / "v.db") as rl:
        Manifests.check = lambda self, snapshot: None  # type: ignore[method-assign]  # as versions did that had no such check
        rl.history.import_(str(made), workspace=str(directory / "w"))
        Manifests.check = checked  # type: ignore[method-assign]
        name = f"bomb-{kind}"
        for verb, act in {
            "verify": lambda: rl.history.verify(name).problems,
            "diff": lambda: rl.files.diff(name, name),
            "fork": lambda: rl.history.fork(name, name="f", workspace=str(directory / "f")),
            "drill": lambda: rl.admin.drill(name, directory / "d", most_bytes=1_000_000),
        }.items():
            try:
                said = repr(act())
            except RelightError as error:
                said = str(error)
            print(verb, said[:300])
    print("peak_mb", peak_megabytes())
    taken = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
    print("disk_mb", taken // 1_000_000)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
