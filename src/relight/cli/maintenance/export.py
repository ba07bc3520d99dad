"""`relight export`: write a session as a bundle, or as readable JSON files."""

from __future__ import annotations

import errno
import json
import shutil
import tempfile
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import ref_argument, verb
from relight.errors import NotFound, Refused, StoreFull, StoreUnavailable, UsageError
from relight.system import private_directories
from relight.text.format import count

if TYPE_CHECKING:
    from relight.bundles.export import Exported


@verb(
    "export",
    ("export fix-login fix-login.relight", "one file: journal, files, labels; secrets redacted"),
    ("export fix-login f.relight --sign-key k", "signed, so that the other side can trust it"),
    ("export fix-login ./fix-login --json", "session.json and one file per step, to read"),
    ("export fix-login@206 ./then --json", "up to a checkpoint"),
)
@ref_argument()
@click.argument("target", metavar="FILE|DIRECTORY", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Readable JSON into a directory, one file per step.")
@click.option("--sign-key", type=click.Path(path_type=Path), metavar="KEYFILE", help="Sign the file with this key.")
@click.option("--attach", multiple=True, metavar="NAME=PATH", help="Attach a file, such as a native transcript.")
@click.option("--redact/--no-redact", default=True, help="Redact secrets (default: yes).")
@pass_context
def export(
    cli: CliContext,
    ref: str,
    target: Path,
    as_json: bool,
    sign_key: Path | None,
    attach: tuple[str, ...],
    redact: bool,
) -> int:
    """Write a session to a file. FILE is a bundle for `relight import`; with --json it is an empty DIRECTORY."""
    if as_json:
        if sign_key is not None or attach:
            raise UsageError("--sign-key and --attach are for bundles", hints=["leave out --json"])
        return _readable(cli, ref, target, redact=redact)
    if target.is_dir():
        hints = [f"readable files: relight export {ref} {target} --json"]
        raise UsageError(f"{target}: is a directory; a bundle is one file", hints=hints)
    attachments = {}
    for one in attach:
        name, separator, path = one.partition("=")
        if not separator or name in attachments:
            raise UsageError(f"not NAME=PATH, or a duplicate name: {one}", hints=["--attach rollout=session.jsonl"])
        attachments[name] = path
    with cli.opened() as rl:
        key = read_key(sign_key) if sign_key is not None else None
        written = rl.history.export(ref, target, redact=redact, key=key, attachments=attachments)
    _print_exported(cli, target, written)
    return 0


def _print_exported(cli: CliContext, target: Path, written: Exported) -> None:
    console = cli.console
    if console.out.terminal:
        size = f"{written.size_bytes:,} bytes"
        signed = f" · signed with {written.signed_by}" if written.signed_by else ""
        console.write([[f"✓ {target} · {count(written.steps, 'step')} · {size}{signed}"]])
    else:
        console.row((target, written.session, written.steps, written.size_bytes, written.sha256))
    if written.redacted:
        steps = count(written.redacted, "step")
        console.say(f"secrets were redacted in {steps}: the bundle has a digest chain of its own")
    if written.secrets_left:
        console.say(f"secrets in {count(written.secrets_left, 'step')} were not redacted: do not share the file")


def _write_all(directory: Path, documents: Iterable[tuple[str, object]]) -> int:
    """Write all files or none: into a private temporary directory, which is renamed at the end."""
    private_directories.make(directory.absolute().parent)
    partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.absolute().parent))
    written = 0
    try:
        for name, document in documents:
            text = json.dumps(document, indent=2, ensure_ascii=True, default=str)
            private_directories.write(partial / name, text.encode("ascii") + b"\n")
            written += 1
        partial.rename(directory)  # replaces an empty directory of that name
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(str(directory)) from error
        raise StoreUnavailable(f"{directory}: {error.strerror or error}; nothing was written") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return written


def _readable(cli: CliContext, ref: str, directory: Path, *, redact: bool) -> int:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Refused(f"{directory}: exists and is not empty", hints=["choose another directory"])
    with cli.opened() as rl:
        documents = rl.history.documents(ref, redact=redact)
        first = next(documents)  # raises for an unknown ref before anything is created
        written = _write_all(directory, chain([first], documents))
    if cli.console.out.terminal:
        cli.console.write([[f"✓ {count(written, 'file')} in {directory}"]])
    else:
        cli.console.row((directory, written))
    return 0


_MAX_BYTES: Final = 64 * 1024


def read_key(path: Path) -> bytes:
    """Read a key file; NotFound or UsageError if it cannot be one."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed tells a file that is too large; /dev/zero is not read to its end.
            key = file.read(_MAX_BYTES + 1)
    except OSError as error:
        evidence = [str(error), f"make one: head -c 32 /dev/urandom > {path}"]
        raise NotFound(str(path), what="key file", evidence=evidence) from None
    if len(key) > _MAX_BYTES:
        raise UsageError(f"{path}: over {_MAX_BYTES:,} bytes: not a key file")
    return key
