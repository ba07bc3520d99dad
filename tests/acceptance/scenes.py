"""What people do with sessions on the command line, as scenes: each is told to a desk, whatever store it has.

A scene says the exit codes itself; that all the rest is the same on every store is said by who plays them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import relight
from relight.values.call import Intent
from relight.values.step import Changes
from tests.acceptance.desk import Desk
from tests.calls import call, send_mail
from tests.cli.conftest import run_tests

Scene = Callable[[Desk], None]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def some(desk: Desk) -> None:
    """One session of each kind that people have: waiting, completed, failed, stopped, archived."""
    with desk.opened() as rl:
        with rl.session("fix-login", agent="claude", task="Make it pass", labels={"team": "web"}, key="T-1") as s:
            s.append(user("Make the login test pass"))
            s.append(call("c1", "run_tests"), {"input_tokens": 900, "output_tokens": 100, "cost": 1.5})
            s.run_tool(s.pending_calls()[0], [run_tests, send_mail])
            s.checkpoint("tests-red")
            s.append(call("c2", "send_mail", '{"to": "bob"}'))
            s.run_tool(s.pending_calls()[0], [run_tests, send_mail])
            s.append(reply("The lock test expects the old path."))
            s.wait("Run `git push origin main`?")
        desk.clock.advance(1.0)
        with rl.session("changelog", provider="openai", model="m-1") as s:
            s.state["pages"] = [1, 2, {"größe": 3}]
            s.append(reply("Wrote the changelog for 2.4 \u2028 \x1b[31mred\x00"))
            s.complete({"files": 1})
        desk.clock.advance(1.0)
        with pytest.raises(RuntimeError), rl.session("nightly-docs") as s:
            s.append(user("docs"))
            raise RuntimeError("key refused: 401")
        desk.clock.advance(1.0)
        with rl.session("port-to-uv", metadata={"ticket": 7}) as s:
            s.append(user("port it"))
        desk.clock.advance(1.0)
        with rl.session("old") as s:
            s.complete()
        rl.archive("old")


# -- looking --------------------------------------------------------------------------------------------------


def an_empty_store(desk: Desk) -> None:
    desk.run()
    desk.run("list")
    desk.run("list", "--json")
    desk.run("verify")
    desk.run("sweep", "--dry-run")
    desk.run("show", "nobody", code=3)
    desk.run("tail", "nobody", code=3)
    desk.run("resume", "nobody", code=3)


def looking(desk: Desk) -> None:
    some(desk)
    desk.run()
    for words in ("", "--all", "--json", "--agent claude", "--provider openai", "--status failed", "--label team=web"):
        desk.run("list", *words.split())
    for words in ("--search change", "--search T-1", "--since 1h --sort name", "--status archived", "--agent nobody"):
        desk.run("list", *words.split())
    desk.run("list", "--status", "nonsense", code=2)
    for name in ("fix-login", "changelog", "nightly-docs", "port-to-uv"):
        for flags in ("", "--json", "--verbose", "--verbose --json", "--short"):
            desk.run("show", name, *flags.split())
        desk.run("checkpoints", name)
        desk.run("checkpoints", name, "--json")
        desk.run("tail", name)
        desk.run("tail", name, "--after", "1", "--json")
        desk.run("can-resume", name, "--json")
        desk.run("resume", name, "--dry-run", "--json")
    desk.run("show", "fix-login@tests-red")
    desk.run("show", "fix-login@3", "--json")
    desk.run("verify")
    desk.run("verify", "fix-login", "--json")
    desk.run("sweep", "--dry-run", "--days", "0", "--json")
    desk.run("rm", "fix-login", "--dry-run", "--json")


def naming(desk: Desk) -> None:
    """Full ids, prefixes, names, labels; what leads nowhere, or to several."""
    some(desk)
    ids = [one["id"] for one in desk.json("list", "--all")]
    for one in ids:
        desk.run("show", one, "--short")
        desk.run("show", one[:6], "--short")
    desk.run("show", ids[0][:3], code=3)
    desk.run("show", "fix-log", code=3)
    desk.run("show", "fix-login@99", code=3)
    desk.run("show", "fix-login@nolabel", code=3)
    desk.run("show", "fix-login@0", code=3)
    desk.run("show", "%", code=3)
    desk.run("show", "_ix-login", code=3)
    desk.run("show", "../../etc/passwd", code=3)
    desk.run("label", "fix-login@3", "early")
    desk.run("label", "fix-login", "late", "--json")
    desk.run("label", "fix-login@4", "early")
    desk.run("show", "fix-login@early", "--json")
    desk.run("checkpoints", "fix-login", "--labelled")
    desk.run("label", "fix-login@3", "not a label", code=2)
    desk.run("label", "nobody", "x", code=3)


# -- going back and aside -------------------------------------------------------------------------------------


def branching(desk: Desk) -> None:
    some(desk)
    desk.run("fork", "fix-login@tests-red", "try argon2", "--name", "argon")
    desk.run("fork", "fix-login@3", "--json")
    desk.run("show", "argon", "--verbose", "--json")
    desk.run("checkpoints", "argon")
    desk.run("tail", "argon")
    desk.run("fork", "argon", "and bcrypt", "--name", "bcrypt")
    desk.run("fork", "argon", "--name", "bcrypt", code=4)
    desk.run("fork", "fix-login@77", code=3)
    desk.run("rewind", "fix-login@tests-red", code=2)
    desk.run("rewind", "fix-login", "--conversation", code=2)
    desk.run("rewind", "fix-login@tests-red", "--files", code=4)
    desk.run("rewind", "fix-login@tests-red", "--conversation", "--json")
    desk.run("show", "fix-login", "--verbose", "--json")
    desk.run("undo", "fix-login")
    desk.run("show", "fix-login", "--json")
    desk.run("undo", "fix-login", "--redo")
    desk.run("undo", "fix-login", "--list")
    desk.run("checkpoints", "fix-login", "--json")
    desk.run("undo", "changelog", code=3)
    desk.run("rm", "fix-login", "--yes", code=4)
    desk.run("rm", "bcrypt", "--yes")
    desk.run("rm", "fix-login", "--with-forks", "--yes", "--json")
    desk.run("list")
    desk.run("verify")


def files(desk: Desk) -> None:
    """A workspace: what changed, back, forward, conflicts, a fork with files of its own."""
    desk.write("main.py", "print(1)\n")
    desk.write("data/a.csv", "1,2\n")
    with desk.opened() as rl, rl.session("shop", workspace=desk.directory) as s:
        s.append(user("begin"))
        s.checkpoint("first")
        desk.write("main.py", "print(2)\nprint(3)\n")
        desk.write("data/b.csv", "3,4\n")
        s.append(reply("two"))
        s.checkpoint("second")
        desk.write("main.py", "print(4)\n")
        (desk.directory / "data" / "a.csv").unlink()
        s.append(reply("three"))
    desk.run("show", "shop", "--verbose")
    desk.run("checkpoints", "shop", "--json")
    desk.run("diff", "shop@first", "shop")
    desk.run("diff", "shop@first", "shop@second", "--stat")
    desk.run("diff", "shop@first", "--json")
    desk.run("restore", "shop@first", "--dry-run")
    desk.run("restore", "shop@first", "--dry-run", "--json")
    desk.run("restore", "shop@first", "main.py")
    assert desk.read("main.py") == "print(1)\n"
    desk.run("undo", "shop")
    assert desk.read("main.py") == "print(4)\n"
    desk.run("rewind", "shop@second", "--both")
    assert (desk.read("main.py"), desk.read("data/a.csv")) == ("print(2)\nprint(3)\n", "1,2\n")
    desk.run("undo", "shop", "--list")
    desk.run("undo", "shop", "--json")
    desk.run("rewind", "shop@first", "--files", "--json")
    assert desk.read("data/b.csv") is None
    desk.write("main.py", "mine\n")
    desk.run("restore", "shop@second", code=4)
    assert desk.read("main.py") == "mine\n"
    desk.run("restore", "shop@second", "--theirs")
    assert desk.read("main.py") == "mine\n"
    desk.run("restore", "shop@second", "--ours")
    assert desk.read("main.py") == "print(2)\nprint(3)\n"
    desk.run("fork", "shop@first", "--name", "other", "--workspace", str(desk.base / "other"))
    assert (desk.base / "other" / "main.py").read_text() == "print(1)\n"
    desk.run("verify")
    desk.run("restore", "shop@99", code=3)
    desk.run("rm", "other", "--yes")
    desk.run("sweep", "--days", "0")


# -- deciding -------------------------------------------------------------------------------------------------


def doubt(desk: Desk) -> None:
    """A call that may or may not have taken effect, settled both ways."""
    for name in ("mail", "again"):
        with desk.opened() as rl, rl.session(name) as s:
            s.append(call("c9", "send_mail", '{"to": "bob"}'))
            asked = s.pending_calls()[0].asked_seq
            intent = Intent(id="c9", name="send_mail", effect="once", asked_seq=asked)
            s._recorder.commit("intent", Changes(intents=[intent]))
    desk.run("list")
    desk.run("can-resume", "mail", "--json")
    desk.run("show", "mail", "--verbose", "--json")
    desk.run("tail", "mail")
    desk.run("settle", "mail", "c9")
    desk.run("settle", "mail", "c9", "--result", "it was sent", "--retry", code=2)
    desk.run("settle", "mail", "c1", "--retry", code=3)
    desk.run("settle", "mail", "c9", "--result", "it was sent", "--json")
    desk.run("settle", "mail", "c9", "--result", "twice", code=3)
    desk.run("settle", "again", "c9", "--retry")
    desk.run("can-resume", "again", "--json")
    with desk.opened() as rl, rl.session("again") as s:
        s.run_tool(s.pending_calls()[0], [send_mail])
    desk.run("show", "mail", "--verbose", "--json")
    desk.run("show", "again", "--verbose", "--json")


def answering(desk: Desk) -> None:
    some(desk)
    desk.run("send", "fix-login", "yes")
    desk.run("show", "fix-login", "--json")
    desk.run("send", "port-to-uv", "also the docs", "--json")
    desk.run("tail", "port-to-uv", "--json")
    desk.run("send", "old", "x", code=4)
    desk.run("approve", "fix-login", code=4)
    desk.run("stop", "fix-login", code=4)
    desk.run("resume", "changelog", code=4)
    desk.run("attach", "port-to-uv", code=4)
    with desk.opened() as rl, rl.session("fix-login") as s:
        assert s.wait("Run `git push origin main`?") == "yes"


def owning(desk: Desk) -> None:
    """A session that somebody works on: looked at freely, changed by nobody else, cleared if need be."""
    with pytest.raises(relight.errors.LeaseLost), desk.opened() as rl, rl.session("mine") as s:
        s.append(user("hello"))
        desk.run("list", "--status", "working", "--json")
        with desk.opened() as other, pytest.raises(relight.errors.LeaseHeld):
            other.session("mine")
        desk.run("send", "mine", "x", code=4)
        desk.run("rewind", "mine@1", "--conversation", code=4)
        desk.run("archive", "mine", code=4)
        desk.run("rm", "mine", "--yes", code=4)
        desk.run("sweep", "--days", "0")
        desk.run("clear", "mine", code=2)
        desk.run("clear", "mine", "--yes", "--why", "it hangs")
        desk.leave_out_working_time()
        s.append(user("too late"))
    desk.run("tail", "mine", "--json")
    desk.run("show", "mine", "--json")
    with desk.opened() as rl, rl.session("mine") as s:
        s.append(user("again"))
        s.complete()
    desk.run("checkpoints", "mine")


# -- ending ---------------------------------------------------------------------------------------------------


def ending(desk: Desk) -> None:
    some(desk)
    desk.run("archive", "changelog")
    desk.run("archive", "fix-login", code=4)
    archived = {one["task"] or one["id"]: one["id"] for one in desk.json("list", "--status", "archived")}
    for one in archived.values():
        desk.run("resume", one, "x", "--yes", code=4)
        desk.run("show", one)
    desk.run("list", "--all")
    desk.run("sweep", "--json")
    desk.clock.advance(8 * 86_400)
    desk.run("sweep", "--dry-run")
    desk.run("sweep", "--json")
    desk.run("list", "--all", "--json")
    desk.run("rm", "nightly-docs", "--yes", "--json")
    desk.run("rm", "nightly-docs", "--yes", code=3)
    desk.run("rm", "--label", "team=web", "--dry-run")
    desk.run("rm", "--label", "team=web", "--yes")
    desk.run("rm", code=2)
    desk.run("list", "--all")
    desk.run("verify", "--json")


def moving(desk: Desk) -> None:
    """Out as a bundle and as readable files, and in again under the same id."""
    some(desk)
    bundle, readable = desk.base / "fix.relight", desk.base / "readable"
    key = desk.base / "key"
    key.write_bytes(b"k" * 32)
    desk.run("export", "fix-login", str(bundle), "--sign-key", str(key))
    desk.run("export", "fix-login", str(readable), "--json")
    desk.run("export", "fix-login", str(readable), "--json", code=4)
    desk.run("export", "nobody", str(desk.base / "none"), code=3)
    desk.run("import", str(bundle), "--key", str(key), "--json")
    desk.run("rm", "fix-login", "--yes")
    desk.run("import", str(desk.base / "missing.relight"), code=3)
    desk.run("import", str(bundle), "--key", str(key), "--name", "came-back", "--json")
    desk.run("show", "came-back", "--verbose", "--json")
    desk.run("checkpoints", "came-back", "--labelled")
    desk.run("verify")
    bundle.write_bytes(bundle.read_bytes()[:-40])
    desk.run("import", str(bundle), code=4)


def damage(desk: Desk) -> None:
    """A flipped byte in the newest step is named, refused, and the checkpoint before it offered."""
    with desk.opened() as rl, rl.session("hurt") as s:
        for number in range(4):
            s.append(user(f"message {number}"))
    found = desk.json("show", "hurt")
    desk.damage(found["id"], found["seq"] - 1)
    desk.run("verify", code=5)
    desk.run("verify", "hurt", "--json", code=5)
    desk.run("show", "hurt")
    desk.run("can-resume", "hurt", "--json", code=4)
    desk.run("send", "hurt", "x", code=5)
    desk.run("fork", f"hurt@{found['seq'] - 2}", "--name", "whole", "--json")
    desk.run("show", "whole", "--verbose", "--json")


def archived_names(desk: Desk) -> None:
    """An archived session gives its name up to whoever wants it, and is found by it where nobody has it."""
    some(desk)
    with desk.opened() as rl:
        first = rl.get("old").id
    desk.run("show", "old")
    desk.run("fork", "changelog", "--name", "old")
    desk.run("show", "old", "--json")
    desk.run("show", first, "--json")
    with desk.opened() as rl:
        assert rl.get("old").id != first and rl.get(first).name is None
    desk.run("rm", "old", "--yes")
    desk.run("show", "old", "--json")
    with desk.opened() as rl:
        assert rl.get("old").id == first, "nobody has the name any more"
        bundle = desk.base / "named.relight"
        rl.fork("changelog", name="moving-on")
        rl.export_bundle("moving-on", bundle)
        rl.drop("moving-on")
        rl.fork("changelog", name="moving-on")
        rl.archive("moving-on")
        assert rl.import_bundle(bundle, name="moving-on").name == "moving-on"
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
