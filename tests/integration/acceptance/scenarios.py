"""What people do with sessions on the command line, as scenes: each is told to a runner, whatever store it has.

A scene says the exit codes itself; that all the rest is the same on every store is said by who plays them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import relight
from relight.values.call import Intent
from relight.values.step import Changes
from tests.support.calls import call, send_mail
from tests.support.cli_runner import CliRunner
from tests.unit.cli.conftest import run_tests

Scene = Callable[[CliRunner], None]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def some(runner: CliRunner) -> None:
    """One session of each kind that people have: waiting, completed, failed, stopped, archived."""
    with runner.opened() as rl:
        with rl.session("fix-login", agent="claude", task="Make it pass", labels={"team": "web"}, key="T-1") as s:
            s.append(user("Make the login test pass"))
            s.append(call("c1", "run_tests"), {"input_tokens": 900, "output_tokens": 100, "cost": 1.5})
            s.run_tool(s.pending_calls()[0], [run_tests, send_mail])
            s.checkpoint("tests-red")
            s.append(call("c2", "send_mail", '{"to": "bob"}'))
            s.run_tool(s.pending_calls()[0], [run_tests, send_mail])
            s.append(reply("The lock test expects the old path."))
            with pytest.raises(relight.Waiting):
                s.ask("Run `git push origin main`?")
        runner.clock.advance(1.0)
        with rl.session("changelog", provider="openai", model="m-1") as s:
            s.state["pages"] = [1, 2, {"größe": 3}]
            s.append(reply("Wrote the changelog for 2.4 \u2028 \x1b[31mred\x00"))
            s.complete({"files": 1})
        runner.clock.advance(1.0)
        with pytest.raises(RuntimeError), rl.session("nightly-docs") as s:
            s.append(user("docs"))
            raise RuntimeError("key refused: 401")
        runner.clock.advance(1.0)
        with rl.session("port-to-uv", metadata={"ticket": 7}) as s:
            s.append(user("port it"))
        runner.clock.advance(1.0)
        with rl.session("old") as s:
            s.complete()
        rl.sessions.archive("old")


# -- looking --------------------------------------------------------------------------------------------------


def an_empty_store(runner: CliRunner) -> None:
    runner.run()
    runner.run("list")
    runner.run("list", "--json")
    runner.run("verify")
    runner.run("sweep", "--dry-run")
    runner.run("show", "nobody", code=3)
    runner.run("tail", "nobody", code=3)
    runner.run("resume", "nobody", code=3)


def looking(runner: CliRunner) -> None:
    some(runner)
    runner.run()
    for words in ("", "--all", "--json", "--agent claude", "--provider openai", "--status failed", "--label team=web"):
        runner.run("list", *words.split())
    for words in ("--search change", "--search T-1", "--since 1h --sort name", "--status archived", "--agent nobody"):
        runner.run("list", *words.split())
    runner.run("list", "--status", "nonsense", code=2)
    for name in ("fix-login", "changelog", "nightly-docs", "port-to-uv"):
        for flags in ("", "--json", "--verbose", "--verbose --json", "--short"):
            runner.run("show", name, *flags.split())
        runner.run("checkpoints", name)
        runner.run("checkpoints", name, "--json")
        runner.run("tail", name)
        runner.run("tail", name, "--after", "1", "--json")
        runner.run("can-resume", name, "--json")
        runner.run("resume", name, "--dry-run", "--json")
    runner.run("show", "fix-login@tests-red")
    runner.run("show", "fix-login@3", "--json")
    runner.run("verify")
    runner.run("verify", "fix-login", "--json")
    runner.run("sweep", "--dry-run", "--days", "0", "--json")
    runner.run("rm", "fix-login", "--dry-run", "--json")


def naming(runner: CliRunner) -> None:
    """Full ids, prefixes, names, labels; what leads nowhere, or to several."""
    some(runner)
    ids = [one["id"] for one in runner.json("list", "--all")]
    for one in ids:
        runner.run("show", one, "--short")
        runner.run("show", one[:6], "--short")
    runner.run("show", ids[0][:3], code=3)
    runner.run("show", "fix-log", code=3)
    runner.run("show", "fix-login@99", code=3)
    runner.run("show", "fix-login@nolabel", code=3)
    runner.run("show", "fix-login@0", code=3)
    runner.run("show", "%", code=3)
    runner.run("show", "_ix-login", code=3)
    runner.run("show", "../../etc/passwd", code=3)
    runner.run("label", "fix-login@3", "early")
    runner.run("label", "fix-login", "late", "--json")
    runner.run("label", "fix-login@4", "early")
    runner.run("show", "fix-login@early", "--json")
    runner.run("checkpoints", "fix-login", "--labelled")
    runner.run("label", "fix-login@3", "no/label", code=2)
    runner.run("label", "nobody", "x", code=3)


# -- going back and aside -------------------------------------------------------------------------------------


def branching(runner: CliRunner) -> None:
    some(runner)
    runner.run("fork", "fix-login@tests-red", "try argon2", "--name", "argon")
    runner.run("fork", "fix-login@3", "--json")
    runner.run("show", "argon", "--verbose", "--json")
    runner.run("checkpoints", "argon")
    runner.run("tail", "argon")
    runner.run("fork", "argon", "and bcrypt", "--name", "bcrypt")
    runner.run("fork", "argon", "--name", "bcrypt", code=4)
    runner.run("fork", "fix-login@77", code=3)
    runner.run("rewind", "fix-login@tests-red", code=2)
    runner.run("rewind", "fix-login", "--conversation", code=2)
    runner.run("rewind", "fix-login@tests-red", "--files", code=4)
    runner.run("rewind", "fix-login@tests-red", "--conversation", "--json")
    runner.run("show", "fix-login", "--verbose", "--json")
    runner.run("undo", "fix-login")
    runner.run("show", "fix-login", "--json")
    runner.run("undo", "fix-login", "--redo")
    runner.run("undo", "fix-login", "--list")
    runner.run("checkpoints", "fix-login", "--json")
    runner.run("undo", "changelog", code=3)
    runner.run("rm", "fix-login", "--yes", code=4)
    runner.run("rm", "bcrypt", "--yes")
    runner.run("rm", "fix-login", "--with-forks", "--yes", "--json")
    runner.run("list")
    runner.run("verify")


def files(runner: CliRunner) -> None:
    """A workspace: what changed, back, forward, conflicts, a fork with files of its own."""
    runner.write("main.py", "print(1)\n")
    runner.write("data/a.csv", "1,2\n")
    with runner.opened() as rl, rl.session("shop", workspace=runner.directory) as s:
        s.append(user("begin"))
        s.checkpoint("first")
        runner.write("main.py", "print(2)\nprint(3)\n")
        runner.write("data/b.csv", "3,4\n")
        s.append(reply("two"))
        s.checkpoint("second")
        runner.write("main.py", "print(4)\n")
        (runner.directory / "data" / "a.csv").unlink()
        s.append(reply("three"))
    runner.run("show", "shop", "--verbose")
    runner.run("checkpoints", "shop", "--json")
    runner.run("diff", "shop@first", "shop")
    runner.run("diff", "shop@first", "shop@second", "--stat")
    runner.run("diff", "shop@first", "--json")
    runner.run("restore", "shop@first", "--dry-run")
    runner.run("restore", "shop@first", "--dry-run", "--json")
    runner.run("restore", "shop@first", "main.py")
    assert runner.read("main.py") == "print(1)\n"
    runner.run("undo", "shop")
    assert runner.read("main.py") == "print(4)\n"
    runner.run("rewind", "shop@second", "--both")
    assert (runner.read("main.py"), runner.read("data/a.csv")) == ("print(2)\nprint(3)\n", "1,2\n")
    runner.run("undo", "shop", "--list")
    runner.run("undo", "shop", "--json")
    runner.run("rewind", "shop@first", "--files", "--json")
    assert runner.read("data/b.csv") is None
    runner.write("main.py", "mine\n")
    runner.run("restore", "shop@second", code=4)
    assert runner.read("main.py") == "mine\n"
    runner.run("restore", "shop@second", "--theirs")
    assert runner.read("main.py") == "mine\n"
    runner.run("restore", "shop@second", "--ours")
    assert runner.read("main.py") == "print(2)\nprint(3)\n"
    runner.run("fork", "shop@first", "--name", "other", "--workspace", str(runner.base / "other"))
    assert (runner.base / "other" / "main.py").read_text() == "print(1)\n"
    runner.run("verify")
    runner.run("restore", "shop@99", code=3)
    runner.run("rm", "other", "--yes")
    runner.run("sweep", "--days", "0")


# -- deciding -------------------------------------------------------------------------------------------------


def doubt(runner: CliRunner) -> None:
    """A call that may or may not have taken effect, settled both ways."""
    for name in ("mail", "again"):
        with runner.opened() as rl, rl.session(name) as s:
            s.append(call("c9", "send_mail", '{"to": "bob"}'))
            asked = s.pending_calls()[0].asked_seq
            intent = Intent(id="c9", name="send_mail", effect="once", asked_seq=asked)
            s._recorder.commit("intent", Changes(intents=[intent]))
    runner.run("list")
    runner.run("can-resume", "mail", "--json")
    runner.run("show", "mail", "--verbose", "--json")
    runner.run("tail", "mail")
    runner.run("settle", "mail", "c9")
    runner.run("settle", "mail", "c9", "--result", "it was sent", "--retry", code=2)
    runner.run("settle", "mail", "c1", "--retry", code=3)
    runner.run("settle", "mail", "c9", "--result", "it was sent", "--json")
    runner.run("settle", "mail", "c9", "--result", "twice", code=3)
    runner.run("settle", "again", "c9", "--retry")
    runner.run("can-resume", "again", "--json")
    with runner.opened() as rl, rl.session("again") as s:
        s.run_tool(s.pending_calls()[0], [send_mail])
    runner.run("show", "mail", "--verbose", "--json")
    runner.run("show", "again", "--verbose", "--json")


def answering(runner: CliRunner) -> None:
    some(runner)
    runner.run("send", "fix-login", "yes")
    runner.run("show", "fix-login", "--json")
    runner.run("send", "port-to-uv", "also the docs", "--json")
    runner.run("tail", "port-to-uv", "--json")
    runner.run("send", "old", "x", code=4)
    runner.run("approve", "fix-login", code=4)
    runner.run("stop", "fix-login", code=4)
    runner.run("resume", "changelog", code=4)
    runner.run("attach", "port-to-uv", code=4)
    with runner.opened() as rl, rl.session("fix-login") as s:
        assert s.ask("Run `git push origin main`?") == "yes"


def owning(runner: CliRunner) -> None:
    """A session that somebody works on: looked at freely, changed by nobody else, cleared if need be."""
    with pytest.raises(relight.errors.LeaseLost), runner.opened() as rl, rl.session("mine") as s:
        s.append(user("hello"))
        runner.run("list", "--status", "working", "--json")
        with runner.opened() as other, pytest.raises(relight.errors.LeaseHeld):
            other.session("mine")
        runner.run("send", "mine", "x", code=4)
        runner.run("rewind", "mine@1", "--conversation", code=4)
        runner.run("archive", "mine", code=4)
        runner.run("rm", "mine", "--yes", code=4)
        runner.run("sweep", "--days", "0")
        runner.run("clear", "mine", code=2)
        runner.run("clear", "mine", "--yes", "--why", "it hangs")
        runner.leave_out_working_time()
        s.append(user("too late"))
    runner.run("tail", "mine", "--json")
    runner.run("show", "mine", "--json")
    with runner.opened() as rl, rl.session("mine") as s:
        s.append(user("again"))
        s.complete()
    runner.run("checkpoints", "mine")


# -- ending ---------------------------------------------------------------------------------------------------


def ending(runner: CliRunner) -> None:
    some(runner)
    runner.run("archive", "changelog")
    runner.run("archive", "fix-login", code=4)
    archived = {one["task"] or one["id"]: one["id"] for one in runner.json("list", "--status", "archived")}
    for one in archived.values():
        runner.run("resume", one, "x", "--yes", code=4)
        runner.run("show", one)
    runner.run("list", "--all")
    runner.run("sweep", "--json")
    runner.clock.advance(8 * 86_400)
    runner.run("sweep", "--dry-run")
    runner.run("sweep", "--json")
    runner.run("list", "--all", "--json")
    runner.run("rm", "nightly-docs", "--yes", "--json")
    runner.run("rm", "nightly-docs", "--yes", code=3)
    runner.run("rm", "--label", "team=web", "--dry-run")
    runner.run("rm", "--label", "team=web", "--yes")
    runner.run("rm", code=2)
    runner.run("list", "--all")
    runner.run("verify", "--json")


def moving(runner: CliRunner) -> None:
    """Out as a bundle and as readable files, and in again under the same id."""
    some(runner)
    bundle, readable = runner.base / "fix.relight", runner.base / "readable"
    key = runner.base / "key"
    key.write_bytes(b"k" * 32)
    runner.run("export", "fix-login", str(bundle), "--sign-key", str(key))
    runner.run("export", "fix-login", str(readable), "--json")
    runner.run("export", "fix-login", str(readable), "--json", code=4)
    runner.run("export", "nobody", str(runner.base / "none"), code=3)
    runner.run("import", str(bundle), "--key", str(key), "--json")
    runner.run("rm", "fix-login", "--yes")
    runner.run("import", str(runner.base / "missing.relight"), code=3)
    runner.run("import", str(bundle), "--key", str(key), "--name", "came-back", "--json")
    runner.run("show", "came-back", "--verbose", "--json")
    runner.run("checkpoints", "came-back", "--labelled")
    runner.run("verify")
    bundle.write_bytes(bundle.read_bytes()[:-40])
    runner.run("import", str(bundle), code=4)


def damage(runner: CliRunner) -> None:
    """A flipped byte in the newest step is named, refused, and the checkpoint before it offered."""
    with runner.opened() as rl, rl.session("hurt") as s:
        for number in range(4):
            s.append(user(f"message {number}"))
    found = runner.json("show", "hurt")
    runner.damage(found["id"], found["seq"] - 1)
    runner.run("verify", code=5)
    runner.run("verify", "hurt", "--json", code=5)
    runner.run("show", "hurt")
    runner.run("can-resume", "hurt", "--json", code=4)
    runner.run("send", "hurt", "x", code=5)
    runner.run("fork", f"hurt@{found['seq'] - 2}", "--name", "whole", "--json")
    runner.run("show", "whole", "--verbose", "--json")


def archived_names(runner: CliRunner) -> None:
    """An archived session gives its name up to whoever wants it, and is found by it where nobody has it."""
    some(runner)
    with runner.opened() as rl:
        first = rl.sessions.get("old").id
    runner.run("show", "old")
    runner.run("fork", "changelog", "--name", "old")
    runner.run("show", "old", "--json")
    runner.run("show", first, "--json")
    with runner.opened() as rl:
        assert rl.sessions.get("old").id != first and rl.sessions.get(first).name is None
    runner.run("rm", "old", "--yes")
    runner.run("show", "old", "--json")
    with runner.opened() as rl:
        assert rl.sessions.get("old").id == first, "nobody has the name any more"
        bundle = runner.base / "named.relight"
        rl.history.fork("changelog", name="moving-on")
        rl.history.export("moving-on", bundle)
        rl.sessions.remove("moving-on")
        rl.history.fork("changelog", name="moving-on")
        rl.sessions.archive("moving-on")
        assert rl.history.import_(bundle, name="moving-on").name == "moving-on"
        with rl.session("old", resume=False) as s:
            assert s.name == "old" and s.id != first


SCENES: Final[tuple[Scene, ...]] = (
    an_empty_store,
    looking,
    naming,
    branching,
    files,
    doubt,
    answering,
    owning,
    ending,
    moving,
    damage,
    archived_names,
)
