"""View values: pure functions from what the engine says to what a page shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relight.files.diff import FileDiff
from relight.history.events import Event
from relight.server.pages import files, history, plots
from relight.server.pages.conversation import conversation, whole_part
from relight.server.pages.digest import Tally, parts_of
from relight.server.pages.sessions import filters_of
from tests.support.server_harness import ServerHarness

START = datetime(2026, 11, 15, 9, tzinfo=UTC)


def event(seq: int, kind: Any = "message", *, after: float = 0.0, **parts: Any) -> Event:
    at = START + timedelta(seconds=after or seq)
    return Event(session="s", seq=seq, kind=kind, at=at, attempt=1, label=parts.pop("label", None), **parts)


def asked(seq: int, *names: str, text: str = "") -> Event:
    calls = [{"id": f"c{seq}{n}", "type": "function", "function": {"name": one, "arguments": '{"path": "a.py"}'}}
             for n, one in enumerate(names)]  # fmt: skip
    return event(seq, messages=[{"role": "assistant", "content": text or None, "tool_calls": calls}])


def began(seq: int, call: str, name: str, asked_seq: int) -> Event:
    return event(seq, "intent", intents=[{"id": call, "name": name, "effect": "once", "asked_seq": asked_seq}])


def ended(seq: int, call: str, asked_seq: int, status: str = "ok", content: Any = "done") -> Event:
    outcome = {"id": call, "asked_seq": asked_seq, "status": status, "content": content, "synthetic": False}
    return event(seq, "result", outcomes=[outcome])


# -- history ---------------------------------------------------------------------------------


def test_intent_and_result_are_one_row_under_the_turn_that_asked() -> None:
    events = [asked(1, "send_mail", text="I build them."), began(2, "c10", "send_mail", 1), ended(5, "c10", 1)]
    (turn,) = history.history_rows(events, "openai")
    (call,) = turn.calls
    assert (turn.word, turn.text) == ("model", '"I build them."')
    assert (call.seq, call.mark, call.seconds, call.effect) == (2, "✓", 3.0, "once")
    assert call.text == "send_mail a.py"


def test_a_call_without_a_result_is_in_doubt_only_where_nobody_works() -> None:
    for doubtful, mark in ((True, "!"), (False, "…")):
        rows = history.history_rows([asked(1, "pay"), began(2, "c10", "pay", 1)], "openai")
        history.marked(rows, view=None, doubtful=doubtful, labels={})
        assert rows[0].calls[0].mark == mark
        assert history.is_problem(rows[0]) is doubtful


def test_rows_of_one_step_have_ids_of_their_own_and_a_call_hangs_under_the_reply_that_asks_for_it() -> None:
    """As Claude Code writes: text and call as two messages of one step, and the hook reports the next call first."""

    def claude(seq: int, call: str, text: str) -> Event:
        use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": call}}
        said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        return event(seq, messages=[said, {"role": "assistant", "content": [use]}])

    events = [claude(1, "a", "first"), began(2, "a", "Bash", 1), ended(3, "a", 1)]
    events += [began(4, "b", "Bash", 0), claude(5, "b", "second"), ended(6, "b", 0)]
    for density, ids in (("steps", 6), ("turns", 4)):
        rows = history.history_rows(events, "anthropic", density=density)  # type: ignore[arg-type]
        every = [one.id for row in rows for one in (row, *row.calls)]
        assert len(set(every)) == len(every) == ids, density
        later = history.history_rows(events[3:], "anthropic", density=density)  # type: ignore[arg-type]
        assert {one.id for row in later for one in (row, *row.calls)} <= set(every), "another window, other ids"
    assert [(row.text, [call.text for call in row.calls]) for row in rows] == [
        ('"first"', ["Bash a"]),
        ('"second"', ["Bash"]),
    ]


def test_a_failure_is_unfolded_with_what_it_said() -> None:
    events = [asked(1, "t"), began(2, "c10", "t", 1), ended(3, "c10", 1, "error", "2 failed\nwhy\n" + "x\n" * 20)]
    (turn,) = history.history_rows(events, "openai")
    assert turn.calls[0].detail[:2] == ["2 failed", "why"] and turn.calls[0].detail[-1] == "… 16 more lines"


def test_an_attempt_is_a_rule_with_its_reason_rung_and_verdict() -> None:
    events = [
        event(1, "attempt", started={"number": 1, "owner": "pid 1"}),
        event(2, "attempt", started={"number": 2, "resumed_from": 9, "reason": "signal 9", "rung": "native"}),
        event(3, "mark", note={"resume": {"verdict": "progressed", "rung": "native"}}),
    ]
    first, second = history.history_rows(events, None)
    assert first.rule and second.rule
    assert second.text == "attempt 2, resumed from @9, native after signal 9 · progressed"


def test_what_left_the_models_view_is_marked_and_a_later_label_is_shown() -> None:
    rows = history.history_rows([asked(1, text="a"), asked(2, text="b")], "openai", density="steps")
    history.marked(rows, view=frozenset({2}), doubtful=False, labels={2: "green"})
    assert [(row.left, row.label) for row in rows] == [(True, None), (False, "green")]


def test_a_filter_keeps_rules_and_the_rest_is_counted() -> None:
    events = [event(1, "attempt", started={"number": 1}), asked(2, text="hi"), event(3, "mark", label="green")]
    rows = history.history_rows(events, "openai")
    assert [row.word for row in history.filtered(rows, "marks")] == ["start", "mark"]
    assert len(history.filtered(rows, "problems")) == 1


def test_every_density_shows_every_step() -> None:
    events = [asked(1, "t", text="x"), began(2, "c10", "t", 1), ended(3, "c10", 1), event(4, "mark", label="l")]
    for density, words in (("turns", ["model", "mark"]), ("steps", ["model", "tool", "mark"])):
        assert [row.word for row in history.history_rows(events, "openai", density=density)] == words  # type: ignore[arg-type]
    assert [row.seq for row in history.history_rows(events, "openai", density="events")] == [1, 2, 3, 4]


def test_an_answer_is_shown_not_its_key_or_reason() -> None:
    (row,) = history.history_rows([event(1, "mark", answer=["Deploy?", "yes", "key-1", "it is late"])])
    assert row.text == "answered: yes"


# -- windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "after", "upto"),
    [
        ({"at": None, "upto": None, "after": None}, 800, 1000),
        ({"at": 300, "upto": None, "after": None}, 200, 400),
        ({"at": 990, "upto": None, "after": None}, 800, 1000),
        ({"at": None, "upto": 500, "after": None}, 300, 500),
        ({"at": None, "upto": None, "after": 950}, 950, 1000),
        ({"at": None, "upto": 10**9, "after": None}, 800, 1000),
        ({"at": None, "upto": None, "after": None, "whole": True}, 0, 1000),
    ],
)
def test_a_window_is_two_hundred_steps_around_what_was_asked_for(given: Any, after: int, upto: int) -> None:
    found = history.window_of(1000, **given)
    assert (found.after, found.upto) == (after, upto)
    assert found.earlier == (after or None) and found.later == (upto if upto < 1000 else None)


def test_windows_before_and_after_one_another_leave_no_gap() -> None:
    seen: list[int] = []
    at: int | None = 1234
    while at:
        one = history.window_of(1234, at=None, upto=at, after=None)
        seen = [*range(one.after + 1, one.upto + 1), *seen]
        at = one.earlier
    assert seen == list(range(1, 1235))


def test_positions_are_read_leniently_and_nothing_else_is() -> None:
    assert [history.position(one) for one in ("@12", "12", "x", "-1", "1e9", None, "9" * 20)] == [12, 12] + [None] * 5


# -- conversation ---------------------------------------------------------------------------------


def test_a_conversation_shows_reasons_folded_calls_results_and_where_it_was_cut() -> None:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "yes"},
              {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}}]  # fmt: skip
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4000}}
    events = [
        event(1, messages=[{"role": "assistant", "content": blocks}]),
        event(2, messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, picture]}]),
        event(3, "rewind", base=1),
        event(4, "reset", messages=[{"role": "user", "content": "summary"}]),
    ]
    said = conversation(events, "anthropic", frozenset({1, 4}))
    assert [part.kind for part in said[0].parts] == ["reason", "text", "call"]
    assert [(one.seq, one.left) for one in said if one.parts] == [(1, False), (2, True), (4, False)]
    assert "3.0 kB" in [part.size for part in said[1].parts] and "AAAA" not in str(said[1].parts)
    assert [one.seq for one in said if one.cut] == [3, 4]


def claude(*blocks: dict[str, Any], role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def use(call: str, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}


def test_one_reply_is_one_card_with_each_result_under_its_call() -> None:
    intent = {"id": "t1", "name": "Bash", "arguments": {"command": "ls"}, "effect": "once", "asked_seq": 0}
    done = {"id": "t1", "asked_seq": 0, "status": "ok", "content": {"stdout": "a.py"}, "synthetic": False}
    answers = [{"type": "tool_result", "tool_use_id": one, "content": "a.py"} for one in ("t1", "t2")]
    events = [
        event(1, messages=[claude({"type": "text", "text": "go"}, role="user")]),
        event(2, "intent", intents=[intent]),  # the hook is faster than the transcript
        event(3, messages=[claude({"type": "text", "text": "I look."})]),
        event(4, "result", outcomes=[done]),
        event(5, messages=[claude(use("t1", "ls")), claude(use("t2", "pwd"))]),
        event(6, messages=[claude(*answers, role="user")]),
        event(7, messages=[claude({"type": "text", "text": "Done."})]),
    ]
    said = conversation(events, "anthropic", None)
    assert [(one.seq, one.speaker, [part.kind for part in one.parts]) for one in said] == [
        (1, "user", ["text"]),
        (3, "assistant", ["text", "call", "call"]),
        (7, "assistant", ["text"]),
    ]
    _, first, second = said[1].parts
    assert [(one.seq, one.also, one.shown.text) for one in first.results if one.shown] == [(6, 4, "a.py")]
    assert first.steps == {2, 4, 5, 6}
    assert [one.seq for one in second.results] == [6]


def test_a_call_that_only_a_hook_reported_has_a_card_and_a_result_without_its_call_too() -> None:
    intent = {"id": "t1", "name": "Bash", "arguments": {"command": "ls"}, "effect": "once", "asked_seq": 0}
    said = conversation([event(2, "intent", intents=[intent]), ended(3, "t0", 1), ended(4, "t1", 0)], "anthropic", None)
    assert [(one.seq, one.speaker) for one in said] == [(2, "assistant"), (3, "tool")]
    assert said[0].parts[0].results[0].seq == 4
    assert said[1].parts[0].title == "result of an earlier call"


def test_a_page_formats_a_bounded_part_of_what_it_shows() -> None:
    events = [event(seq, messages=[{"role": "user", "content": "word " * 3000}]) for seq in range(1, 200)]
    plain = [one.parts[0].plain for one in conversation(events, "openai", None)]
    assert plain[0] is False and plain.count(False) < 20 and plain == sorted(plain)


def test_a_long_value_is_cut_and_can_be_asked_for_whole() -> None:
    long = "line\n" * 5000
    one = event(1, messages=[{"role": "user", "content": long}])
    (said,) = conversation([one], "openai", None)
    assert said.parts[0].cut and said.parts[0].size == "25 kB"
    whole = whole_part(one, "openai", said.parts[0].index)
    assert whole is not None and whole.text == long
    assert whole_part(one, "openai", 9) is None


# -- files ---------------------------------------------------------------------------------


def changed(path: str, *, lines: int = 3, risky: bool = False, text: str | None = "") -> FileDiff:
    body = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n" if text == "" else text
    return FileDiff(root="main", path=path, what="changed", kind="file", lines_added=lines, lines_removed=0, text=body,
                    may_run_later=risky)  # fmt: skip


def test_dangers_come_first_and_generated_or_large_files_are_folded() -> None:
    diffs = [changed("uv.lock", lines=400), changed("big.py", lines=501), changed(".envrc", risky=True),
             changed("b.py"), changed("a.bin", text=None), changed("dist/x.js")]  # fmt: skip
    shown = files.files_of(diffs)
    bodies = {line.path: line.body for line in shown.lines}
    assert shown.lines[0].path == ".envrc" and shown.risky == [shown.lines[0]]
    assert bodies == {
        ".envrc": "now",
        "a.bin": "none",
        "b.py": "now",
        "big.py": "ask",
        "uv.lock": "ask",
        "dist/x.js": "ask",
    }


def test_only_a_few_bodies_come_with_the_page_and_files_that_are_not_listed_are_counted() -> None:
    shown = files.files_of([changed(f"f{n:04d}.py") for n in range(700)])
    assert [line.body for line in shown.lines].count("now") == files.EAGER
    assert (len(shown.lines), shown.hidden, shown.total) == (500, 200, 700)
    assert files.body_of([changed("x.py")], "main", "x.py") and files.body_of([], "main", "x.py") is None


def test_a_difference_is_lines_with_a_kind_and_no_control_character() -> None:
    text = files.shown_text(changed("x", text="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-\x1b[2Jold\n+new\n same\n"))
    assert files.diff_lines(text) == [
        ("hunk", "@@ -1 +1 @@"),
        ("del", "-\\x1b[2Jold"),
        ("add", "+new"),
        ("ctx", " same"),
    ]


# -- plots and digest ---------------------------------------------------------------------------------


def test_lanes_tell_where_the_time_went() -> None:
    events = [
        event(1, "attempt", after=0.001, started={"number": 1}),
        event(2, after=60, messages=[{"role": "assistant", "content": "x"}], usage={"cost": 0.5, "input_tokens": 10}),
        event(3, "intent", after=61, intents=[{"id": "c", "name": "t", "effect": "once"}]),
        event(4, "result", after=91, outcomes=[{"id": "c", "asked_seq": 0, "status": "ok", "content": ""}]),
        event(5, "status", after=92, status={"status": "waiting"}),
        event(6, "attempt", after=192, started={"number": 2, "reason": "answered"}),
        event(7, after=200, messages=[{"role": "assistant", "content": "y"}], usage={"cost": 0.25}),
    ]
    measure = plots.Measure().read(events)
    lanes = measure.timeline()
    assert {name: time for name, time, _ in lanes.rows} == {
        "model": "70 s",
        "tools": "30 s",
        "waits for a person": "2 min",
        "waits for a limit": "0.0 s",
        "queued": "0.0 s",
        "not running": "0.0 s",
    }
    assert lanes.caption == "Of 3 min, 100 s were work, 2 min it waited for a person."
    burn = measure.burn(budget=2.0)
    assert burn is not None and burn.costs == [0.0, 0.5, 0.75, 0.75] and len(burn.attempts) == 1
    assert "$0.25 since the last resume" in burn.caption


def test_time_that_passes_is_in_the_plot_and_an_answer_is_no_limit() -> None:
    """W-B7, W-B8: a session waits for a person, is answered, and stands until somebody starts it."""
    queued = {"status": "queued", "reason": "answered", "failure": None}
    limited = {"status": "queued", "reason": "usage limit of anthropic", "failure": None}
    events = [
        event(1, "attempt", after=0.001, started={"number": 1}),
        event(2, "status", after=10, status={"status": "waiting"}),
        event(3, "status", after=40, status=queued),
        event(4, "status", after=60, status=limited),
    ]
    measure = plots.Measure().read(events)
    measure.until(START + timedelta(seconds=90), 4)
    assert {name: time for name, time, _ in measure.timeline().rows if time != "0.0 s"} == {
        "model": "10.0 s",
        "waits for a person": "30 s",
        "queued": "20 s",
        "waits for a limit": "30 s",
    }


def test_what_nobody_priced_has_no_burn_and_no_zero() -> None:
    assert plots.Measure().read([event(1, messages=[{"role": "user", "content": "x"}])]).burn() is None


def test_a_plot_of_very_many_spans_stays_small() -> None:
    spans = [plots.Span(activity="model", seq=n, begins=n * 1.0, ends=n + 0.5) for n in range(20_000)]
    assert len(plots.timeline_of(spans, []).shapes) < 2 * plots.WIDTH


def test_the_digest_tells_what_happened_and_not_what_did_not() -> None:
    assert parts_of(Tally()) == []
    tally = Tally(finished=4, waiting=1, steps=142, crashes=1, cost=7.4)
    assert parts_of(tally) == ["4 finished", "1 waits for you", "142 steps saved", "1 crash survived", "$7.40"]


# -- filters ---------------------------------------------------------------------------------


def test_filters_come_from_the_address_and_make_it_again() -> None:
    filters = filters_of({"status": "failed", "q": "log in", "since": "8h", "sort": "cost", "before": "12~ab"})
    assert filters.query() == "/?status=failed&since=8h&q=log+in&sort=cost"
    assert filters.words() == "status=failed, since=8h, “log in”"
    assert filters.before == "12~ab" and filters.any


def test_several_statuses_are_asked_for_as_in_the_api() -> None:
    filters = filters_of({"status": "halted, failed,nonsense"})
    assert filters.status == "failed,halted" and filters.query() == "/?status=failed%2Chalted"


def test_an_address_that_means_nothing_shows_everything() -> None:
    filters = filters_of({"status": "'; DROP", "since": "1e9", "sort": "x", "before": "../..", "q": "\0"})
    assert not filters.any and filters.query() == "/" and not filters.before


def test_the_view_of_a_fork_holds_its_ancestors_steps(scene: ServerHarness) -> None:
    info = scene.rl.sessions.get("fix-login-argon2")
    whole = history.window_of(info.seq, at=None, upto=None, after=None)
    rows = history.window_rows(scene.rl, info, whole, density="steps", kind="all").rows
    assert rows[0].seq == 1 and not any(row.left for row in rows)


def test_a_message_that_is_only_a_picture_has_its_row() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    rows = history.history_rows(
        [
            event(1, messages=[{"role": "user", "content": [picture]}]),
            event(2, messages=[{"role": "user", "content": [{"type": "text", "text": "look"}, picture, picture]}]),
        ],
        "anthropic",
    )
    assert [row.text for row in rows] == ["1 image", '"look", 2 images']
