"""Fork and rewind append and never delete; refs lead to the checkpoint that was meant, or nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from relight.errors import Ambiguous, Conflict, InvalidName, NotFound, UsageError
from relight.library.facade import Relight
from relight.testing.clock import SeededEntropy
from tests.support.simulation import Simulation


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(rl: Relight, ref: str) -> list[str]:
    return [message["content"] for message in rl.history.load(ref).messages]


def write(rl: Relight, name: str, *words: str) -> str:
    with rl.session(name) as s:
        for word in words:
            s.append(user(word))
    return s.id


def seq_of(rl: Relight, ref: str, count: int) -> int:
    """The checkpoint of this session that first had so many messages."""
    return next(one.seq for one in rl.history.checkpoints(ref) if one.message_count == count)


def test_a_rewind_moves_the_head_and_seq_never_goes_back(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"12345")
    before, target = rl.sessions.get("a"), seq_of(rl, "a", 2)
    rl.history.rewind(f"a@{target}")
    after = rl.sessions.get("a")
    assert (after.head, after.seq) == (target, before.seq + 1)
    assert texts(rl, "a") == ["1", "2"]
    write(rl, "a", "x")
    assert texts(rl, "a") == ["1", "2", "x"]
    assert texts(rl, f"a@{before.seq}") == list("12345"), "what was left behind can still be read"
    rl.history.rewind(f"a@{before.head}")
    assert texts(rl, "a") == list("12345"), "a rewind is undone by another"
    assert rl.history.verify().ok


def test_a_rewind_takes_state_and_usage_views_back_but_neither_effects_nor_the_money(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("1"), usage={"input_tokens": 5})
        s.state["n"] = 1
        early = s.checkpoint("early")
        s.state["n"] = 2
        del s.state["n"]
        s.once("k", lambda: "ran")
        s.append(user("2"), usage={"input_tokens": 7})
    rl.history.rewind("a@early")
    loaded = rl.history.load("a")
    assert (loaded.state, loaded.seq) == ({"n": 1}, early.seq)
    assert rl.sessions.get("a").usage.input_tokens == 12
    with rl.session("a") as s:
        assert s.once("k", lambda: "again") == "ran"


def test_a_fork_stores_only_its_suffix_and_leaves_its_parent_alone(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"1234")
    at, before = seq_of(rl, "a", 2), rl.sessions.get("a")
    fork = rl.history.fork(f"a@{at}", name="b")
    assert (fork.parent, fork.seq, fork.status) == (f"{before.id}@{at}", at, "queued")
    write(rl, "b", "x", "y")
    write(rl, "a", "5")
    assert (texts(rl, "a"), texts(rl, "b")) == (list("12345"), ["1", "2", "x", "y"])
    own = list(rl.store.steps(fork.id))
    assert own[0].seq == at + 1
    assert len(own) == 4
    assert texts(rl, f"b@{at - 1}") == ["1"], "below its beginning its refs lead into the parent"
    assert [one.seq for one in rl.history.checkpoints("b")] == list(range(1, at + 5))
    assert rl.history.verify().ok


def test_forks_of_forks_and_of_rewound_sessions_read_what_was_there(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"123456")
    rl.history.rewind(f"a@{seq_of(rl, 'a', 3)}")
    write(rl, "a", "4b")
    rl.history.fork("a", name="b")
    write(rl, "b", "5b")
    rl.history.fork(f"b@{seq_of(rl, 'b', 2)}", name="c")
    write(rl, "c", "3c")
    rl.history.fork(f"a@{seq_of(rl, 'a', 6)}", name="d")
    assert texts(rl, "b") == ["1", "2", "3", "4b", "5b"]
    assert texts(rl, "c") == ["1", "2", "3c"]
    assert texts(rl, "d") == list("123456"), "a checkpoint that a rewind left behind can be forked"
    rl.history.fork("c", name="e")
    assert texts(rl, "e") == ["1", "2", "3c"]
    assert rl.history.verify().ok


def test_resuming_below_the_head_forks_in_the_library_too(world: Simulation) -> None:
    rl = world.start()
    session = write(rl, "a", *"123")
    at = seq_of(rl, "a", 1)
    with rl.session(f"a@{at}") as s:
        assert s.id != session
        s.append(user("other"))
    assert (texts(rl, "a"), texts(rl, s.id)) == (list("123"), ["1", "other"])
    assert rl.runs.prepare(f"a@{at}", prompt="more").parent == f"{session}@{at}"
    head = rl.sessions.get("a").head
    assert rl.runs.prepare(f"a@{head}").id == session


def test_a_fork_with_a_prompt_ends_with_it(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", "1")
    assert texts(rl, rl.history.fork("a", prompt="and now").id) == ["1", "and now"]


def test_a_fork_never_takes_a_name_that_is_taken(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", "1")
    with pytest.raises(Conflict):
        rl.history.fork("a", name="a")
    with pytest.raises(InvalidName):
        rl.history.fork("a", name="../a")
    assert len(list(rl.sessions.list())) == 1


def test_the_newest_use_of_a_label_wins_and_a_fork_sees_only_what_it_inherited(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"12345678")
    rl.history.label("a@3", "good")
    rl.history.fork("a@5", name="b")
    write(rl, "b", *"xyz")
    assert texts(rl, "b@good") == texts(rl, "a@3")
    rl.history.label("a@7", "good")
    rl.history.label("a@7", "late")
    assert texts(rl, "a@good") == texts(rl, "a@7")
    assert texts(rl, "b@good") == texts(rl, "a@3"), "a label given to the parent after the fork is not the fork's"
    with pytest.raises(NotFound):
        rl.history.load("b@late")
    rl.history.label("b@6", "good")
    assert texts(rl, "b@good") == texts(rl, "b@6")


@pytest.mark.parametrize("label", ["123", "", "a  b", "x" * 101, "-a", "é ", "a\n", "../x", "a\x00"])
def test_a_label_that_could_not_be_typed_back_is_refused(world: Simulation, label: str) -> None:
    rl = world.start()
    write(rl, "a", "1")
    with pytest.raises(InvalidName):
        rl.history.label("a@1", label)
    with rl.session("a") as s:
        with pytest.raises(InvalidName):
            s.checkpoint(label)
        with pytest.raises(InvalidName):
            s.batch(label)


def test_a_session_without_a_step_can_be_forked_labelled_or_rewound_only_as_far_as_it_goes(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", "1")
    for ref in ("a@0", "a@99", "a@nolabel", "a@", "a@-1", "a@1@2"):
        with pytest.raises(NotFound):
            rl.history.load(ref)
    with pytest.raises(UsageError):
        rl.history.rewind("a")


class Alike(SeededEntropy):
    """Ids that all begin with the same four characters."""

    def session_id(self) -> str:
        return "abcd" + super().session_id()[4:]


def test_an_ambiguous_prefix_lists_its_candidates_and_an_exact_name_beats_a_prefix(world: Simulation) -> None:
    world.chance = Alike()
    rl = world.start()
    ids = [write(rl, f"s{number}", "1") for number in range(3)]
    with pytest.raises(Ambiguous) as caught:
        rl.sessions.get("abcd")
    assert sorted(caught.value.candidates) == ["s0", "s1", "s2"]
    for act in (
        rl.history.load,
        rl.history.fork,
        rl.sessions.remove,
        rl.runs.plan,
        rl.admin.release,
        rl.sessions.archive,
    ):
        with pytest.raises(Ambiguous):
            act("abcd")
    named = write(rl, "abcd", "exact")
    assert rl.sessions.get("abcd").id == named
    assert rl.sessions.get(ids[0][:31]).id == ids[0]
    with pytest.raises(NotFound):
        rl.sessions.get("abc")
    assert rl.sessions.find("nothing") is None
    assert rl.sessions.find("abcd" + "f" * 3) is None


def test_a_session_shows_the_same_result_as_its_next_opening_after_a_rewind_and_a_compaction(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("1"))
        ended = s.complete("result")
    rl.runs.send("a", "more")
    with rl.session("a") as s:
        for act in (lambda: s.rewind(ended), lambda: s.replace([user("so far")]), lambda: s.append(user("on"))):
            act()
            assert s.result == rl.history.load("a").result
