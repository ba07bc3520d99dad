"""Each verb does what it says, on a pipe, as JSON and on a terminal; looking changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.cli.app.group import GROUPS, VERBS
from relight.cli.app.group import relight as verbs
from relight.cli.app.help_lines import HelpContext
from tests.support.calls import call, send_mail
from tests.support.shell import Shell, eventually, logical_dump


def keys(words: str) -> set[str]:
    return set(words.split())


SESSION = keys(
    "id name key agent provider model task labels metadata status reason failure resumed_from head seq attempt parent"
    " workspace runtime handle created_at updated_at usage attention doing last_step_at saved_at wake_at cost cost_rate"
    " cost_tree evidence worked_seconds limits spawned_by subagent attach env secrets queued_as"
)
CHECKPOINT = keys("id session seq kind label created_at turns message_count model snapshot size_bytes version")
CALL = keys("id name arguments result success effect in_doubt intent_seq result_seq started_at ended_at")
RED = 7
"""the seq of the checkpoint tests-red"""
READING = [
    ["list"],
    ["list", "--all", "--sort", "cost"],
    ["show", "fix-login"],
    ["show", "fix-login", "--verbose"],
    ["show", "fix-login@tests-red"],
    ["show", "fix-login", "--short"],
    ["search", "lock", "test"],
    ["checkpoints", "fix-login"],
    ["tail", "fix-login"],
    ["tail", "fix-login", "--after", "0"],
    ["can-resume", "fix-login"],
    ["resume", "fix-login", "--dry-run"],
    ["rm", "fix-login", "--dry-run"],
    ["sweep", "--dry-run", "--days", "0"],
    ["verify"],
    ["verify", "fix-login"],
    ["doctor"],
    [],
    ["help"],
    ["help", "resume"],
    ["completion", "bash"],
]


# -- looking --------------------------------------------------------------------------------------------------


def test_looking_writes_nothing_and_starts_nothing(shell: Shell, some: relight.Relight) -> None:
    before = logical_dump(shell.store)
    for number, words in enumerate(READING):
        done = shell.screen(*words).code if number % 3 else shell.run(*words).returncode
        assert done in (0, 4), words
    assert logical_dump(shell.store) == before


def test_looking_does_not_even_make_the_store(shell: Shell) -> None:
    for words in ([], ["list"], ["doctor"], ["verify"], ["show", "x"], ["archive", "x"]):
        shell.run(*words)
    assert not shell.store.exists()
    assert "No sessions yet" in shell.run("list", RELIGHT_STORE="", XDG_DATA_HOME=str(shell.store.parent)).stderr


def test_a_mistyped_store_is_an_error_that_names_it_and_its_neighbours(shell: Shell, some: relight.Relight) -> None:
    typo = shell.store.with_name("typo.db")
    for given in ({"RELIGHT_STORE": str(typo)}, {"RELIGHT_STORE": f"sqlite:///{typo}"}):
        done = shell.run("list", **given)
        assert done.returncode == 5 and done.stdout == ""
        assert f"there is no store at {typo}, which is named by RELIGHT_STORE" in done.stderr
        assert f"in that directory: {shell.store.name}" in done.stderr
    done = shell.run("--store", str(typo), "show", "x")
    assert done.returncode == 5 and "named by --store" in done.stderr
    assert shell.run("--store", str(typo), "doctor").returncode == 0
    assert not typo.exists()
    assert shell.run("--store", str(typo), "run", "--", "true").returncode == 0 and typo.exists()


def test_help_groups_all_verbs_and_cuts_no_sentence_off(shell: Shell) -> None:
    lines = shell.run("help", COLUMNS="80").stdout.splitlines()
    for verb in VERBS:
        [line] = [line for line in lines if line.startswith(f"  {verb} ")]
        assert line.endswith(".") and not line.endswith(".."), line
        assert len(line) <= 80
    assert [line for line in lines if line.endswith(":")] == [*(f"{title}:" for title in GROUPS), "Options:"]


def test_a_session_has_exactly_the_documented_keys(shell: Shell, some: relight.Relight) -> None:
    listed = shell.json("list", "--all")
    assert len(listed) == 5
    assert all(set(one) == SESSION for one in listed)
    assert set(shell.json("show", "fix-login")) == SESSION
    failed = next(one for one in listed if one["name"] == "nightly-docs")
    assert set(failed["failure"]) == {"class", "text", "fields"}
    assert set(failed["attention"]) == {"kind", "since", "text", "cure"}
    assert set(failed["usage"]) >= {"input_tokens", "output_tokens", "cost"}


def test_checkpoints_calls_plans_and_events_have_the_documented_keys(shell: Shell, some: relight.Relight) -> None:
    assert all(set(one) == CHECKPOINT for one in shell.json("checkpoints", "fix-login"))
    verbose = shell.json("show", "fix-login", "--verbose")
    assert set(verbose) >= SESSION | {"messages", "calls", "state"}
    assert verbose["calls"]
    assert all(set(one) == CALL for one in verbose["calls"])
    plan = shell.json("can-resume", "fix-login")
    assert set(plan) >= {"ok", "reasons", "in_doubt", "checkpoint", "message_count", "plan"}
    assert plan == shell.json("resume", "fix-login", "--dry-run")
    shown = shell.json("show", "fix-login@tests-red")
    assert set(shown) == CHECKPOINT | {"can_resume", "effects_since", "left_out"}
    assert [one["name"] for one in shown["effects_since"]] == ["send_mail"]
    report = shell.json("verify")
    assert (report["ok"], report["sessions"], report["problems"]) == (True, 5, [])
    assert all(set(one) == {"what", "text", "fine", "cure"} for one in shell.json("doctor"))
    events = [json.loads(line) for line in shell.run("tail", "fix-login", "-n", "1000", "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_a_pipe_gets_tabs_whole_fields_and_iso_times(shell: Shell, some: relight.Relight) -> None:
    lines = shell.run("list").stdout.splitlines()
    assert [line.split("\t")[1] for line in lines] == ["port-to-uv", "nightly-docs", "changelog", "fix-login"]
    fields = lines[-1].split("\t")
    assert fields[2] == "waiting"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", fields[6])
    assert "\x1b" not in shell.run("list").stdout
    assert "\x1b[" in shell.run("show", "fix-login", "--color", "always").stdout


def test_nothing_is_cut_in_a_pipe(shell: Shell, rl: relight.Relight) -> None:
    words = " ".join(f"word-{number}" for number in range(300))
    with rl.session("long", task=words) as s:
        s.append({"role": "user", "content": words[:300]})
        s.fail(words[:450])
    shown = shell.run("show", "long").stdout
    assert words in shown
    assert words[:450] in shown
    assert words[:300] in shell.run("tail", "long").stdout
    assert words[:450] in shell.run("list").stdout


def test_steps_of_a_checkpoint_are_those_up_to_it(shell: Shell, some: relight.Relight) -> None:
    wanted = some.history.checkpoint("fix-login@tests-red").seq
    for place in (f"fix-login@{wanted}", "fix-login@tests-red"):
        rows = [json.loads(line)["seq"] for line in shell.run("tail", place, "--json").stdout.splitlines()]
        assert rows == list(range(1, wanted + 1))
        assert shell.run("tail", place).stdout.splitlines()[-1].split("\t")[0] == str(wanted)
        assert [one["seq"] for one in shell.json("checkpoints", place)] == rows
        assert [one["seq"] for one in shell.json("sql", f"select seq from steps('{place}')")] == rows
        refused = shell.run("tail", place, "-f")
        assert (refused.returncode, "leave out the checkpoint: fix-login" in refused.stderr) == (2, True)


def test_a_list_that_hides_rows_says_how_many(shell: Shell, some: relight.Relight) -> None:
    assert "1 archived not shown" in shell.run("list").stderr
    for number in range(25):
        with some.session(f"more-{number}"):
            pass
    screen = shell.screen("list")
    assert "20 of 29 shown, newest first; 1 archived not shown" in screen.text
    assert len([line for line in screen.lines if "more-" in line]) >= 20
    assert "5 sessions" not in shell.screen("list", "--status", "archived").text
    nothing = shell.run("list", "--agent", "nobody")
    assert "Nothing matches" in nothing.stderr
    assert nothing.stdout == ""


def test_filters_find_what_they_name(shell: Shell, some: relight.Relight) -> None:
    def names(*words: str) -> list[str]:
        return [one["name"] for one in shell.json("list", *words)]

    assert names("--agent", "claude") == ["fix-login"]
    assert names("--label", "team=web") == ["fix-login"]
    assert names("--status", "failed") == ["nightly-docs"]
    assert names("--status", "terminated") == ["port-to-uv"]
    assert names("--status", "archived") == ["old"]
    assert names("--search", "change") == ["changelog"]
    assert names("--since", "1h", "--sort", "name") == ["changelog", "fix-login", "nightly-docs", "port-to-uv"]
    assert names("--here") == []


def test_the_strip_names_what_needs_a_person_most_urgent_first(shell: Shell, some: relight.Relight) -> None:
    for words in ([], ["list"]):
        first = shell.screen(*words, width=120).lines[0]
        assert re.match(r"needs you  \? fix-login asks  ✗ nightly-docs exception  † port-to-uv stopped", first)


@pytest.mark.parametrize("width", [40, 80])
def test_no_line_on_a_terminal_is_wider_than_it(shell: Shell, some: relight.Relight, width: int) -> None:
    for words in READING:
        if words[:1] in (["completion"], ["help"]):
            continue  # a script; and help, which has commands to copy: the next test
        screen = shell.screen(*words, width=width)
        assert [line for line in screen.lines if len(line) > width] == [], words


@pytest.mark.parametrize("width", [40, 80])
def test_help_breaks_no_command_and_is_no_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with HelpContext(verbs, info_name="relight") as group:
        assert all(len(line) <= width for line in group.get_help().splitlines())
        for name in VERBS:
            command = verbs.get_command(group, name)
            assert command is not None
            with HelpContext(command, info_name=name, parent=group) as context:
                examples, usage, rest = context.get_help().partition("Usage:")
            meanings = [line for line in examples.splitlines() if not line.startswith("  relight ")]
            for line in [*meanings, *(usage + rest).splitlines()]:
                assert len(line) <= width and not re.search(r"\w-$", line), f"{name}: {line!r}"


def _steady(line: str) -> str:
    """Without ages, and without the space that a column of them takes."""
    return re.sub(r"\s+", " ", re.sub(r"\s*\d[\d.]*\s?m?s( ago)?", " AGE", line))


def test_the_words_are_the_same_without_colour(shell: Shell, some: relight.Relight) -> None:
    for words in (["checkpoints", "fix-login"], ["can-resume", "changelog"], ["show", "changelog"]):
        colored, plain = shell.screen(*words), shell.screen(*words, NO_COLOR="1")
        assert "\x1b[" in colored.text
        assert "\x1b" not in plain.text
        assert [_steady(line) for line in colored.lines] == [_steady(line) for line in plain.lines]
    assert "\x1b" not in shell.screen("list", TERM="dumb").text
    assert "\x1b" not in shell.screen("list", "--color", "never").text
    assert "\x1b[" in shell.run("show", "changelog", CLICOLOR_FORCE="1").stdout


def test_a_locale_without_utf8_gets_ascii(shell: Shell, some: relight.Relight) -> None:
    screen = shell.screen("list", LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", NO_COLOR="1")
    assert screen.text.isascii()
    assert "x failed" in screen.text
    assert "+ terminated" in screen.text


def test_plain_mode_has_no_columns_and_says_why(shell: Shell, some: relight.Relight) -> None:
    for screen, why in (
        (shell.screen("list", ACCESSIBLE="1"), "ACCESSIBLE"),
        (shell.screen("list", "--plain"), "--plain"),
    ):
        assert screen.lines[0] == f"plain mode (from {why})"
        assert "status: waiting" in screen.lines
        assert "\x1b" not in screen.text


def test_watching_redraws_in_place_until_q(shell: Shell, some: relight.Relight) -> None:
    for words in (["list", "--watch"], ["show", "fix-login", "--watch"]):
        screen = shell.screen(*words, keys=b"q", when="q quits")
        assert screen.code == 0
        assert "fix-login" in screen.text
        assert "\x1b[H" in screen.text
        assert screen.text.endswith("\x1b[?25h\x1b[?1049l")
    assert shell.run("list", "--watch").returncode == 2


def test_hints_can_be_silenced(shell: Shell, some: relight.Relight) -> None:
    assert "next:" in shell.screen("show", "fix-login").text
    assert "next:" not in shell.screen("show", "fix-login", RELIGHT_HINTS="0").text


def test_every_verb_explains_itself_with_two_examples_first(shell: Shell) -> None:
    for verb in VERBS:
        if verb == "demo":
            continue
        text = shell.run("help", verb, COLUMNS="80").stdout
        assert text.startswith("Examples:\n"), verb
        assert [line for line in text.splitlines() if len(line) > 80 or " RANGE " in line] == [], verb
        assert text.partition("Usage:")[0].count("  relight ") >= 2, verb
        assert shell.run(verb, "--help", COLUMNS="80").stdout == text
    assert "with relight.session(" in shell.run("help", "python").stdout
    assert shell.run("--help").stdout.count("\n") > 20
    assert shell.run("--version").stdout.startswith("relight ")


# -- following ------------------------------------------------------------------------------------------------


def test_steps_of_another_process_are_shown_within_a_second(shell: Shell, rl: relight.Relight) -> None:
    import time

    with rl.session("going") as s:
        s.append({"role": "user", "content": "begin"})
        follower = shell.start("tail", "going", "-f", "--json")
        out = follower.stdout
        assert out is not None
        seen = [json.loads(out.readline())["seq"] for _ in range(2)]
        late = []
        for number in range(10):
            begun = time.monotonic()
            s.append({"role": "assistant", "content": f"reply {number}"})
            event = json.loads(out.readline())
            late.append(time.monotonic() - begun)
            seen.append(event["seq"])
            assert event["messages"][0]["content"] == f"reply {number}"
        s.complete()
    rest, _ = follower.communicate(timeout=60)
    seen += [json.loads(line)["seq"] for line in rest.splitlines()]
    assert seen == list(range(1, 14))
    assert sorted(late)[len(late) // 2] < 1.0  # a single one may wait for a processor
    assert follower.returncode == 0


def test_following_ends_with_the_session_and_its_exit_code(shell: Shell, rl: relight.Relight) -> None:
    with rl.session("going") as s:
        s.append({"role": "user", "content": "begin"})
        follower = shell.start("tail", "going", "-f")
        assert follower.stdout is not None
        eventually(lambda: follower.stdout and "begin" in follower.stdout.readline())
        s.fail("no luck")
    follower.communicate(timeout=60)
    assert follower.returncode == 1


def test_a_broken_pipe_goes_on_after_the_last_seq_seen(shell: Shell, some: relight.Relight) -> None:
    everything = shell.run("tail", "fix-login", "--after", "0", "--json").stdout.splitlines()
    rest = shell.run("tail", "fix-login", "--after", "3", "--json").stdout.splitlines()
    assert rest == everything[3:]


# -- changing -------------------------------------------------------------------------------------------------


def test_an_answer_puts_a_waiting_session_back_in_line(shell: Shell, some: relight.Relight) -> None:
    made = shell.json("send", "fix-login", "yes")
    assert set(made) == CHECKPOINT
    assert shell.json("show", "fix-login")["status"] == "queued"
    with some.session("fix-login") as s:
        assert s.ask("Run `git push origin main`?") == "yes"


def test_a_fork_leaves_its_parent_as_it_was(shell: Shell, some: relight.Relight) -> None:
    before = shell.json("show", "fix-login")["seq"]
    made = shell.json("fork", "fix-login@tests-red", "try argon2", "--name", "argon")
    assert set(made) == SESSION
    assert made["parent"].endswith(f"@{RED}")
    assert shell.json("show", "fix-login")["seq"] == before
    assert shell.json("show", "argon", "--verbose")["messages"][-1]["content"] == "try argon2"


def test_a_rewind_says_what_it_does_not_undo_and_can_be_taken_back(shell: Shell, some: relight.Relight) -> None:
    head = shell.json("show", "fix-login")["head"]
    screen = shell.screen("rewind", "fix-login@tests-red", "--conversation")
    assert screen.code == 0
    assert "not undone" in screen.text
    assert "send_mail (once)" in screen.text
    undo = re.search(r"relight (undo fix-login)", screen.text)
    assert undo is not None
    assert shell.json("show", "fix-login")["head"] == RED
    assert shell.run(*undo[1].split()).returncode == 0
    assert shell.json("show", "fix-login")["head"] == head


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"x\n", b"\x04"])
def test_a_rewind_asked_about_does_nothing_by_default(shell: Shell, some: relight.Relight, answer: bytes) -> None:
    before = logical_dump(shell.store)
    screen = shell.screen("rewind", "fix-login@tests-red", keys=answer)
    assert "what goes back?" in screen.text
    assert "nothing was changed" in screen.text
    assert logical_dump(shell.store) == before


def test_a_rewind_without_scope_or_terminal_leaves_the_store_as_it_is(shell: Shell, some: relight.Relight) -> None:
    before = shell.store.read_bytes()
    assert shell.run("rewind", "fix-login@tests-red").returncode == 2
    assert shell.store.read_bytes() == before
    assert shell.screen("rewind", "fix-login@tests-red", keys=b"c\n").code == 0
    assert shell.json("show", "fix-login")["head"] == RED


def test_labels_name_checkpoints(shell: Shell, some: relight.Relight) -> None:
    made = shell.json("label", "fix-login@3", "early")
    assert made["checkpoint"].endswith("@3")
    assert shell.json("show", "fix-login@early")["seq"] == 3
    assert [one["label"] for one in shell.json("checkpoints", "fix-login", "--labelled")] == ["early", "tests-red"]


def test_labels_of_a_session_are_given_and_taken_away(shell: Shell, some: relight.Relight) -> None:
    assert shell.json("label", "fix-login", "--add", "team=web", "--add", "a=b=c")["labels"]["a"] == "b=c"
    assert [one["name"] for one in shell.json("list", "--label", "team=web")] == ["fix-login"]
    assert "team" not in shell.json("label", "fix-login", "--remove", "team", "--remove", "none")["labels"]


def doubtful(rl: relight.Relight, shell: Shell) -> None:
    """A session whose mail may or may not have gone out."""
    with rl.session("mail") as s:
        s.append(call("c9", "send_mail", '{"to": "bob"}'))
        s._recorder.commit("intent", _intent(s))


def _intent(s: Any) -> Any:
    from relight.values.call import Intent
    from relight.values.step import Changes

    pending = s.pending_calls()[0]
    return Changes(intents=[Intent(id="c9", name="send_mail", effect="once", asked_seq=pending.asked_seq)])


def test_a_call_in_doubt_is_shown_and_settled(shell: Shell, rl: relight.Relight) -> None:
    doubtful(rl, shell)
    plan = shell.json("can-resume", "mail")
    assert [one["id"] for one in plan["in_doubt"]] == ["c9"]
    assert set(plan["in_doubt"][0]) == CALL
    assert "1 in doubt: send_mail (once)" in shell.screen("can-resume", "mail").text
    assert "1 in doubt" in shell.screen("list").text
    asked = shell.run("settle", "mail", "c9")
    assert (asked.returncode, asked.stdout.startswith("send_mail  ")) == (0, True), asked.stderr
    assert [one["id"] for one in shell.json("can-resume", "mail")["in_doubt"]] == ["c9"], "shown, and not decided"
    assert shell.run("settle", "mail", "c9", "--result", "it was sent").returncode == 0
    assert shell.json("can-resume", "mail")["in_doubt"] == []
    with rl.session("mail") as s:
        assert s.calls()[0].result == "it was sent"


def test_a_call_in_doubt_may_be_let_run_again(shell: Shell, rl: relight.Relight) -> None:
    doubtful(rl, shell)
    assert shell.run("settle", "mail", "c9", "--retry").returncode == 0
    with rl.session("mail") as s:
        assert s.run_tool(s.pending_calls()[0], [send_mail]).result == "sent to bob"


def test_a_rewind_names_what_ran_since_and_runs_it_again_only_where_it_is_told_to(
    shell: Shell, rl: relight.Relight
) -> None:
    with rl.session("mail") as s:
        s.append({"role": "user", "content": "go"})
        s.append(call("c9", "send_mail", '{"to": "bob"}'))
        first = s.run_tool(s.pending_calls()[0], [send_mail])
    at = f"mail@{first.asked_seq}"
    planned = shell.json("rewind", at, "--conversation", "--dry-run")
    assert [(one["id"], one["action"]) for one in planned["calls"]] == [("c9", "carry")]
    assert [one["id"] for one in planned["effects_since"]] == ["c9"]
    forked = shell.json("fork", at, "--dry-run")
    assert [(one["id"], one["action"]) for one in forked["calls"]] == [("c9", "carry")]
    recorded = f"is not run: it gets the result that was recorded at @{first.result_seq}"
    for words in (["rewind", at, "--dry-run"], ["fork", at, "--dry-run"], ["can-resume", at]):
        assert recorded in " ".join(shell.screen(*words, width=160).text.split()), words
    assert rl.sessions.get("mail").head == (first.result_seq or 0) + 1, "a dry run changes nothing"
    assert [one.id for one in rl.sessions.list()] == [s.id]
    refused = shell.run("rewind", at, "--conversation", "--again", "c1")
    assert (refused.returncode, "c9" in refused.stderr) == (3, True)
    assert shell.run("rewind", at, "--conversation", "--again", "c9").returncode == 0
    with rl.session("mail") as s:
        assert s.pending_calls()[0].key == f"{first.key}/2"


def test_archive_hides_for_good(shell: Shell, some: relight.Relight) -> None:
    assert shell.run("archive", "changelog").returncode == 0
    assert "changelog" not in shell.run("list").stdout
    assert "changelog" in shell.run("list", "--all").stdout
    refused = shell.run("resume", shell.json("list", "--all", "--search", "changelog")[0]["id"], "x", "--yes")
    assert refused.returncode == 4
    assert "not restorable (status=archived)" in refused.stderr


def test_removing_asks_first_and_removes_every_byte(shell: Shell, some: relight.Relight) -> None:
    assert "nothing was changed" in shell.screen("rm", "changelog", keys=b"\n").text
    planned = shell.json("rm", "changelog", "--dry-run")
    assert (planned["names"], planned["dry_run"]) == (["changelog"], True)
    assert shell.screen("rm", "changelog", keys=b"y\n").code == 0
    assert shell.run("show", "changelog").returncode == 3
    shell.json("fork", "fix-login", "--name", "child")
    refused = shell.run("rm", "fix-login", "--yes")
    assert refused.returncode == 4
    assert "fork  child" in refused.stderr
    with some.session("held", labels={"team": "web"}) as held:
        some_refuse = shell.run("rm", "--label", "team=web", "--yes")
        held.complete()
    assert some_refuse.returncode == 4 and "2 of 3 sessions could not be removed" in some_refuse.stderr
    assert shell.run("rm", "--label", "team=web", "--with-forks", "--yes").returncode == 0
    assert [one["name"] for one in shell.json("list")] == ["port-to-uv", "nightly-docs"]


def test_sweep_removes_what_is_over_and_never_the_unfinished(shell: Shell, some: relight.Relight) -> None:
    planned = shell.json("sweep", "--dry-run", "--days", "0")
    assert "changelog" in planned["names"]
    assert shell.json("sweep")["sessions"] == []
    swept = shell.json("sweep", "--days", "0")
    assert swept["sessions"] == planned["sessions"]
    assert [one["name"] for one in shell.json("list", "--all")] == ["port-to-uv", "nightly-docs", "fix-login"]


def test_clear_takes_the_lease_and_asks_where_the_owner_lives(shell: Shell, rl: relight.Relight) -> None:
    with pytest.raises(relight.errors.LeaseLost), rl.session("mine") as s:
        s.append({"role": "user", "content": "hello"})
        assert shell.run("clear", "mine").returncode == 2
        assert "nothing was changed" in shell.screen("clear", "mine", keys=b"\n").text
        assert shell.run("clear", "mine", "--yes", "--why", "it hangs").returncode == 0
        s.append({"role": "user", "content": "too late"})
    noted = [json.loads(line)["note"] for line in shell.run("tail", "mine", "--json").stdout.splitlines()]
    assert "it hangs" in str(noted)


def test_export_writes_one_readable_file_a_step(shell: Shell, some: relight.Relight, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert shell.run("export", "fix-login", str(target), "--json").returncode == 0
    session = json.loads((target / "session.json").read_text())
    steps = sorted(target.glob("step-*.json"))
    assert len(steps) == session["seq"]
    read = [json.loads(path.read_text()) for path in steps]
    assert [one["seq"] for one in read] == list(range(1, len(read) + 1))
    assert all(len(one["digest"]) == 64 for one in read)
    assert read[1]["messages"] == [{"role": "user", "content": "Make the login test pass"}]
    assert shell.run("export", "fix-login", str(target), "--json").returncode == 4
    assert shell.run("export", "nobody", str(tmp_path / "none"), "--json").returncode == 3
    assert not (tmp_path / "none").exists()


def test_a_broken_step_is_named_and_the_one_before_offered(shell: Shell, some: relight.Relight) -> None:
    import sqlite3

    newest = some.sessions.get("fix-login").seq
    some.close()
    connection = sqlite3.connect(shell.store)
    connection.execute("update steps set turns = turns + 1 where id = (select max(id) from steps where id >> 32 = 1)")
    connection.commit()
    connection.close()
    report = json.loads(shell.run("verify", "fix-login", "--json").stdout)
    assert report["problems"][0]["seq"] == newest
    assert report["problems"][0]["offered"] == f"fix-login@{newest - 1}"
    done = shell.run("verify")
    assert done.returncode == 5, done.stdout
    assert f"fix-login@{newest}" in shell.screen("verify").text
    assert shell.json("can-resume", "fix-login")["ok"] is False
    assert shell.run("resume", "fix-login", "--dry-run").returncode == 4
    planned = shell.json("resume", "fix-login", "--from-last-good", "--dry-run")
    assert planned["ok"] and planned["checkpoint"].endswith(f"@{newest - 1}") and planned["message_count"]
    assert any(f"continues from @{newest - 1}" in one["text"] for one in planned["reasons"] if one["code"] == "corrupt")
    assert "✗" in shell.screen("show", "fix-login").text
    offered = shell.run("show", f"fix-login@{newest - 1}")
    assert (offered.returncode, "can resume" in offered.stdout) == (0, True)
    refused = shell.run("send", "fix-login", "yes")
    assert refused.returncode == 5
    assert "--from-last-good" in refused.stderr


def test_verbose_shows_what_a_session_was_begun_with_and_what_the_model_thought(shell: Shell) -> None:
    """M27."""
    thought = {"role": "assistant", "content": "done", "reasoning_content": "first look at the lock file"}
    with relight.open(shell.store) as rl:
        options: dict[str, Any] = {
            "model": "model-x",
            "provider": "openai",
            "key": "job-123",
            "metadata": {"ticket": 42},
        }
        with rl.session("job", labels={"team": "web"}, **options) as s:
            s.append({"role": "user", "content": "go"})
            s.append(thought)
            s.complete("x")
    reported = shell.run("show", "job", "--verbose").stdout
    for word in ("model-x", "openai", "job-123", "team=web", '"ticket": 42', "first look at the lock file"):
        assert word in reported, word
    assert "model-x" not in shell.run("show", "job").stdout
    document = shell.json("show", "job", "--verbose")
    assert (document["model"], document["key"], document["metadata"]) == ("model-x", "job-123", {"ticket": 42})
