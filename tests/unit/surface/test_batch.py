"""`with s.batch(label)`: one step, whose checkpoint each append in it returns."""

from __future__ import annotations

import threading

import pytest

from tests.support.simulation import Simulation


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_append_returns_the_checkpoint_that_the_block_is_committed_as(world: Simulation) -> None:
    with world.start().session("a") as s:
        with s.batch("both") as block:
            first, second = s.append(user("1")), s.append(user("2"))
            assert first.seq == s._recorder.head.seq + 1
        assert first is second is block.checkpoint
        assert (first.id, first.label, first.message_count) == (s.head, "both", 2)
        assert first == list(world.start().history.checkpoints("a"))[-1]


def test_it_is_exact_although_another_thread_writes_in_between(world: Simulation) -> None:
    with world.start().session("a") as s:
        with s.batch() as block:
            s.append(user("1"))
            other = threading.Thread(target=lambda: s.append(user("0")))
            other.start()
            other.join()
        assert block.checkpoint.id == s.head
        assert [one["content"] for one in s.messages] == ["0", "1"]


def test_nothing_is_committed_where_the_block_raises(world: Simulation) -> None:
    with world.start().session("a") as s:
        before = s.head
        with pytest.raises(ValueError, match="no"), s.batch():
            s.append(user("1"))
            raise ValueError("no")
        assert (s.head, s.messages) == (before, [])
