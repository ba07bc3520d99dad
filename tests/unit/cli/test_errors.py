"""Every error says what is wrong, with its code, within 80 columns, and what to do where the user can act."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import relight
from relight import errors
from relight.cli.render.cells import cells
from relight.cli.render.console import rendered
from relight.cli.render.errors import lines_of
from relight.cli.render.style import Style
from relight.errors import RelightError
from tests.support.shell import Shell, eventually

LONG = "a-rather-long-name-of-a-session-that-somebody-really-gave-it-in-2026"
SAYS_ITS_CURE = {"SnapshotSwept"}
EXAMPLES: dict[str, RelightError] = {
    "RelightError": RelightError("unexpected KeyError: 'x'", hints=["add --debug"]),
    "UsageError": errors.UsageError("say either a result or retry", hints=["--result TEXT, or --retry"]),
    "InvalidMessage": errors.InvalidMessage("NaN is not JSON", path="$.content[3].text", hints=["use None"]),
    "InvalidName": errors.InvalidName("session name", "../../x" * 2000, "1 to 100 of A-Z"),
    "ScopeRequired": errors.ScopeRequired(f"{LONG}@206"),
    "MissingExtra": errors.MissingExtra("postgres", needed_for="a PostgreSQL store"),
    "UnknownType": errors.UnknownType("shop.cart.Cart", path="channel_values.cart[3]", stored=True),
    "UnknownStore": errors.UnknownStore("mysql://x", known=["sqlite:///relative.db"]),
    "Unresolved": errors.Unresolved("no such thing", hints=["relight list"]),
    "NotFound": errors.NotFound("fix-login"),
    "Ambiguous": errors.Ambiguous("fix", ["fix-login", LONG]),
    "AgentFailed": errors.AgentFailed("cannot start 'x'", hints=["look"]),
    "Waiting": errors.Waiting(LONG, "Run `git push origin main`? " * 5),
    "Refused": errors.Refused("no", hints=["another way"]),
    "LeaseHeld": errors.LeaseHeld(LONG, owner="pid 5120 on a-host", until="05:48:26 UTC (in 26 s)", epoch=2),
    "LeaseLost": errors.LeaseLost(LONG, mine=2, current=3),
    "NotResumable": errors.NotResumable(LONG, "not restorable (status=archived)", hints=["relight fork x"]),
    "ChildFailed": errors.ChildFailed(LONG, [("ada", "failed", "ValueError: no money"), ("bob", "terminated", "")]),
    "Conflict": errors.Conflict("the name is taken", hints=["choose another name"]),
    "PlanMoved": errors.PlanMoved(LONG, shown="@206, waiting", now="@208, working"),
    "QueueFull": errors.QueueFull("nightly", "4 of 4 run", again_seconds=1.0),
    "ThreadBusy": errors.ThreadBusy(LONG, "pid 5120 on a-host, for another 4 s"),
    "ThreadGone": errors.ThreadGone(LONG),
    "SnapshotSwept": errors.SnapshotSwept(LONG, "pool-7"),
    "InDoubt": errors.InDoubt(LONG, "send-mail:bob"),
    "ToolsChanged": errors.ToolsChanged(LONG, ["- deploy once(a,b)", "~ mail once() -> pure()"]),
    "HasForks": errors.HasForks(LONG, ["argon"]),
    "Finished": errors.Finished(LONG, "completed"),
    "LimitReached": errors.LimitReached(LONG, "the budget of $5.00 is spent"),
    "WorkspaceUnusable": errors.WorkspaceUnusable("main", "/src/shop", "missing", hints=["--restore"]),
    "SnapshotIncomplete": errors.SnapshotIncomplete("/src/shop", [(b"a\x1b[2J", "permission denied")] * 30),
    "RestoreConflict": errors.RestoreConflict("/src/shop", [(b"notes.md", "changed after @214")]),
    "BundleRefused": errors.BundleRefused("/tmp/fix-login.relight", "a frame of it fails its checksum"),
    "OverQuota": errors.OverQuota("/src/p.db.blobs/w1", what="takes", would_bytes=2 * 10**11, bound_bytes=10**11),
    "NamesFold": errors.NamesFold([(b"README", b"readme")], "/src/shop"),
    "PathsRefused": errors.PathsRefused("/src/shop", [(b"latest", "a symbolic link (Function not implemented)")]),
    "RestoreUnfinished": errors.RestoreUnfinished("/src/shop", restore="r7", target="@206"),
    "StoreError": errors.StoreError("the store failed", hints=["relight doctor"]),
    "StoreUnavailable": errors.StoreUnavailable("it does not answer", hints=["relight doctor"]),
    "Corrupt": errors.Corrupt("the digest is wrong", session=LONG, seq=215, offered=f"{LONG}@214"),
    "NotAStore": errors.NotAStore("/home/somebody/documents/notes.txt"),
    "NewerStore": errors.NewerStore("/home/somebody/relight.db", found=9, known=2),
    "StoreFull": errors.StoreFull("/home/somebody/relight.db"),
    "StoreReadOnly": errors.StoreReadOnly("/home/somebody/relight.db"),
}


def every_class(root: type[RelightError] = RelightError) -> Iterator[type[RelightError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == "relight.errors":
            yield from every_class(child)


@pytest.mark.parametrize("kind", list(every_class()), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("width", [40, 80])
def test_an_error_is_told_whole_and_within_the_width(kind: type[RelightError], width: int) -> None:
    error = EXAMPLES[kind.__name__]
    assert type(error) is kind
    lines = [rendered(line, Style(width=width, terminal=True)) for line in lines_of(error, Style(width=width))]
    assert [line for line in lines if cells(line) > width] == []
    text = "\n".join(lines)
    assert lines[0].startswith("error:")
    assert f"({kind.code})" in text
    assert text.count("hint:") == len(error.hints)
    assert error.hints or error.evidence or kind.__name__ in SAYS_ITS_CURE
    assert "Traceback" not in text
    assert kind.exit_code in range(7)


def test_codes_are_told_apart() -> None:
    codes = [kind.code for kind in every_class()]
    assert len(codes) == len(set(codes))


# -- exit codes, by real commands -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["nonsense"], "RL-1000", 2),
        (["list", "--since", "yesterday"], "RL-1000", 2),
        (["list", "--label", "x"], "RL-1000", 2),
        (["show"], "RL-1000", 2),
        (["show", "--nonsense"], "RL-1000", 2),
        (["--store", "mysql://x", "list"], "RL-1006", 2),
        (["rewind", "fix-login@2"], "RL-1004", 2),
        (["label", "fix-login", "12"], "RL-1002", 2),
        (["label", "fix-login"], "RL-1000", 2),
        (["label", "fix-login", "early", "--add", "team=web"], "RL-1000", 2),
        (["fork", "fix-login", "--name", "../../x"], "RL-1002", 2),
        (["settle", "fix-login", "c1", "--result", "x", "--retry"], "RL-1000", 2),
        (["settle", "fix-login", "c1"], "RL-2001", 3),
        (["run", "--", "no-such-program-at-all"], "RL-1000", 2),
        (["rm", "changelog"], "RL-1000", 2),
        (["show", "nobody"], "RL-2001", 3),
        (["show", "fix-login@999"], "RL-2001", 3),
        (["show", "fix-login@no-such-label"], "RL-2001", 3),
        (["show", "../../etc/passwd"], "RL-2001", 3),
        (["show", "x" * 10_000], "RL-2001", 3),
        (["tail", ""], "RL-2001", 3),
        (["resume", "old", "--yes"], "RL-4003", 4),
        (["resume", "port-to-uv", "--yes"], "RL-4003", 4),
        (["rewind", "fix-login@2", "--files"], "RL-4000", 4),
        (["rewind", "fix-login@2", "--both"], "RL-4000", 4),
        (["archive", "fix-login"], "RL-4003", 4),
        (["clear", "changelog", "--yes"], "RL-4004", 4),
        (["stop", "changelog"], "RL-4004", 4),
        (["fork", "fix-login", "--name", "changelog"], "RL-4004", 4),
        (["backup", "/"], "RL-4000", 4),
        (["backup", "."], "RL-4000", 4),
        (["export", "fix-login", "/"], "RL-1000", 2),
        (["import", "/"], "RL-2001", 3),
        (["copy", "/", "x.db"], "RL-5003", 5),
        (["--store", "/", "list"], "RL-5003", 5),
        (["--store", "sqlite:////", "run", "--", "true"], "RL-5003", 5),
        (["--store", "/", "migrate"], "RL-5003", 5),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else str(value),
)
def test_a_bad_call_is_refused_with_its_code(
    shell: Shell, some: relight.Relight, words: list[str], code: str, exit_code: int
) -> None:
    done = shell.run(*words)
    assert done.returncode == exit_code, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert f"({code})" in done.stderr
    assert all(re.match("error: |hint: |  |$", line) for line in done.stderr.splitlines()), "wrapped in a pipe"


@pytest.mark.parametrize(
    ("option", "said"), [("--budget", "is not a number"), ("--budget-tokens", "is not a whole number")]
)
def test_a_bad_number_is_told_in_words_of_people(shell: Shell, option: str, said: str) -> None:
    done = shell.run("run", option, "much", "--", "true")
    assert done.returncode == 2 and f"'much' {said}" in done.stderr


@pytest.mark.parametrize("words", [["queue"], ["token"], ["completion"]], ids=" ".join)
def test_a_missing_word_is_told_with_those_there_are(shell: Shell, words: list[str]) -> None:
    first, *_ = shell.run(*words).stderr.splitlines()
    assert re.search(r"Choose from: \w+, \w+, \w+ \(RL-1000\)$", first), first


@pytest.mark.parametrize("words", [["--store", "."], ["copy", "."], ["backup", "notes/x.db"]], ids=" ".join)
def test_a_path_that_cannot_be_used_is_not_blamed_on_the_environment(
    shell: Shell, some: relight.Relight, words: list[str]
) -> None:
    (shell.directory / "notes").write_text("a file")
    done = shell.run(*words, *{"--store": ["list"], "copy": ["other.db"]}.get(words[0], []))
    assert (done.returncode, "in the command, or RELIGHT_STORE" in done.stderr) == (5, True), done.stderr


def test_what_is_no_session_is_not_looked_for_among_sessions(shell: Shell, some: relight.Relight) -> None:
    done = shell.run("import-langgraph", "typo.sqlite")
    assert done.returncode == 3 and "relight list" not in done.stderr, done.stderr


def test_a_remark_is_one_line_in_a_pipe_however_long(shell: Shell, some: relight.Relight) -> None:
    done = shell.run("--store", "/dev/null/" + "a-directory-that-is-not-there/" * 9 + "p.db", "run", "--", "true")
    assert done.returncode == 5, done.stderr
    first, empty, hint = done.stderr.splitlines()
    assert (
        first.endswith("p.db: a part of the path is a file, not a directory (RL-5003)")
        and len(first) > 200
        and empty == ""
    )
    assert hint == "hint: choose another file: in the command, or RELIGHT_STORE"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["show", "fix-login@999"], "relight checkpoints fix-login"),
        (["undo", "fix-login"], "see what was done: relight undo fix-login --list"),
        (["settle", "fix-login", "c9", "--retry"], "see what is open: relight can-resume fix-login"),
        (["show", "nobody"], "relight list --all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_not_found_is_looked_for_where_it_could_be(
    shell: Shell, some: relight.Relight, words: list[str], hint: str
) -> None:
    assert f"hint: {hint}\n" in shell.run(*words).stderr


def test_a_number_longer_than_python_likes_is_shown_and_exported(shell: Shell, rl: relight.Relight) -> None:
    number = 7 * 10**6000 + 1
    with rl.session("big") as s:
        s.append({"role": "user", "content": "x", "n": number})
    digits = "7" + "0" * 5999 + "1"
    for words in (["show", "big", "--verbose", "--json"], ["tail", "big", "--json"]):
        done = shell.run(*words)
        assert done.returncode == 0 and digits in done.stdout, done.stderr
    done = shell.run("export", "big", str(shell.directory / "out"), "--json")
    assert done.returncode == 0, done.stderr
    assert any(digits in one.read_text() for one in (shell.directory / "out").iterdir())


def test_a_store_that_nobody_may_read_is_not_called_read_only(
    shell: Shell, some: relight.Relight, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise errors.StoreReadOnly(str(path))

    monkeypatch.setattr("relight.stores.sqlite.connection.files.prepare", refuse)
    monkeypatch.setattr("relight.stores.sqlite.connection.database.os.access", lambda *_: False)
    with pytest.raises(errors.StoreUnavailable, match="permission denied") as refused:
        relight.open(shell.store)
    assert "RELIGHT_STORE" in refused.value.hints[0]


def test_a_store_that_is_none_is_told_apart_from_one_that_is_broken(shell: Shell, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database " * 500)
    done = shell.run("--store", str(notes), "list")
    assert (done.returncode, "(RL-5003)" in done.stderr) == (5, True), done.stderr
    assert notes.read_text().startswith("not a database")
    assert shell.run("--store", str(tmp_path), "list").returncode == 5


def test_a_missing_file_is_told_by_the_argument_that_names_it(shell: Shell, some: relight.Relight) -> None:
    copied = shell.run("copy", "typo.db", "b.db")
    assert (copied.returncode, "which is named by SOURCE" in copied.stderr) == (5, True), copied.stderr
    imported = shell.run("import", "typo.relight")
    assert (imported.returncode, "hint: check the path" in imported.stderr) == (3, True), imported.stderr


def test_a_rate_without_a_unit_is_refused(shell: Shell, some: relight.Relight) -> None:
    for rate in ("10", "10/", "10/30"):
        refused = shell.run("queue", "set", "nightly", "--rate", rate)
        assert (refused.returncode, "10/min" in refused.stderr) == (2, True), refused.stderr


def test_without_a_home_the_way_out_is_named(shell: Shell) -> None:
    done = shell.run("list", HOME="", XDG_DATA_HOME="", RELIGHT_STORE="")
    assert done.returncode == 5
    assert "RELIGHT_STORE" in done.stderr


def test_a_session_owned_by_another_process_is_refused_with_its_owner(shell: Shell, rl: relight.Relight) -> None:
    with rl.session("mine") as s:
        s.append({"role": "user", "content": "hello"})
        done = shell.run("send", "mine", "more")
    assert done.returncode == 4
    assert "(RL-4001)" in done.stderr
    assert re.search(r"lease held by pid \d+ on \S+ until", done.stderr)


def test_an_ambiguous_prefix_lists_who_it_could_be(shell: Shell, rl: relight.Relight) -> None:
    from tests.unit.cli.similar_ids import make_twins

    first, second = make_twins(rl)
    done = shell.run("show", first.id[:6])
    assert done.returncode == 3
    assert "(RL-2002)" in done.stderr
    assert first.name in done.stderr
    assert second.name in done.stderr


def test_an_unknown_name_lists_what_is_near(shell: Shell, some: relight.Relight) -> None:
    assert "fix-login" in shell.run("show", "fix").stderr
    assert "changelog" in shell.run("show", "chagelog").stderr


def test_an_unknown_verb_names_the_nearest(shell: Shell) -> None:
    done = shell.run("lits")
    assert done.returncode == 2
    assert "hint: relight list" in done.stderr
    assert "relight list --costs" in shell.run("costs").stderr


def test_an_unexpected_error_is_short_and_says_how_to_see_more(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("")
    with relight.open(shell.store) as rl, rl.session("a") as s:
        s.append({"role": "user", "content": "hello"})
    words = ("export", "a", str(target / "below"), "--json")
    short, long = shell.run(*words), shell.run(*words, "--debug")
    assert short.returncode == 1
    assert "Traceback" not in short.stderr
    assert "--debug" in short.stderr
    assert "Traceback" in long.stderr


def test_a_closed_pipe_and_ctrl_c_are_quiet(shell: Shell, some: relight.Relight) -> None:
    import signal

    reader = shell.start("tail", "fix-login", "--json")
    assert reader.stdout is not None
    reader.stdout.close()
    _, complaint = reader.communicate(timeout=30)
    assert complaint == ""
    with some.session("going") as s:
        s.append({"role": "user", "content": "hello"})
        follower = shell.start("tail", "going", "-f")
        assert follower.stdout is not None
        assert "hello" in eventually(lambda: follower.stdout and follower.stdout.readline().partition("user")[2])
        follower.send_signal(signal.SIGINT)
        _, complaint = follower.communicate(timeout=30)
    assert follower.returncode == 130
    assert complaint == ""


def test_an_error_that_a_program_does_not_catch_ends_with_its_hints_as_arguments() -> None:
    error = errors.RestoreConflict("/w", [(b"a.py", "changed")])
    error.add_note("a note of the program")
    error.hints = (*error.hints, "look first: relight diff job")
    shown = "".join(traceback.format_exception(error))
    assert 'hint: keep them: choice="theirs"\n' in shown, "a flag is an argument of the library"
    assert shown.endswith("hint: look first: relight diff job\na note of the program\n")
    assert str(error) in shown and "hint" not in str(error)
