"""`s.stream`: partial output in few steps, seen by readers, gone when the reply is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.ports import faults
from tests.support.simulation import Simulation


def test_it_is_a_step_for_each_second_or_4_kb_and_gone_with_the_reply(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.partial({"pages": 1})
        before = s._recorder.head.seq
        with s.stream() as out:
            for _ in range(600):
                out.write("x")
                world.time.advance(0.005)
            assert s._recorder.head.seq - before == 2
            out.write("y" * 5000)
            assert s._recorder.head.seq - before == 3
            out.write("end")
        assert s._recorder.head.seq - before == 4
        assert s.partial_result == rl.history.load("a").partial == "x" * 600 + "y" * 5000 + "end"
        assert [event.stream for event in rl.history.events("a") if event.stream][-1] == "end"
        s.append({"role": "assistant", "content": "whole"})
        assert (s.partial_result, rl.history.load("a").partial) == ({"pages": 1}, {"pages": 1})


def test_the_text_so_far_survives_a_death_and_a_new_stream_begins_anew(world: Simulation) -> None:
    class Died(BaseException):
        pass

    def die(_: str) -> None:
        raise Died

    s = world.start().session("a")
    with pytest.raises(Died), s.stream() as out:
        out.write("a" * 5000)
        faults.arm("commit.enter", die)
        try:
            out.write("b" * 5000)
        finally:
            faults.disarm()
    s = world.restart().session("a")
    assert s.partial_result == "a" * 5000
    with s.stream() as out:
        out.write("again")
    assert s.partial_result == "again"


def test_where_data_is_redacted_a_secret_is_not_cut_in_two(world: Simulation) -> None:
    secret = "sk-ant-" + "api03-" + "A1b2" * 20
    with world.start().session("a", redact=True) as s:
        with s.stream() as out:
            out.write("x" * 4090 + "\n" + secret[:30])
            out.write(secret[30:] + " and more\n" + "y" * 5000)
        assert secret[:30] not in s.partial_result


def test_the_awaited_form_is_the_same(tmp_path: Path) -> None:
    async def main() -> Any:
        async with relight.aio.open(tmp_path / "a.db") as rl, await rl.session("a") as s:
            async with s.stream() as out:
                await out.write("so far")
            return s.partial_result

    assert asyncio.run(main()) == "so far"
