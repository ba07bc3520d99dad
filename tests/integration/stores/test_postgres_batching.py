"""Steps of several sessions share an exchange with the server; what befalls one of them befalls nobody else."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest

import relight
from relight.errors import StoreError, StoreUnavailable
from relight.stores.postgres import batching
from tests.integration.stores.test_postgres_crashes import wire_to
from tests.support.figures import Figure
from tests.support.postgres_server import Server, name_of, running, wait_for

MANY = 12
OFTEN = 15
REFUSING = """
CREATE FUNCTION relight.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.sid = (SELECT min(sid) FROM relight.sessions) THEN
        RAISE 'not this one' USING ERRCODE = 'disk_full';
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON relight.steps FOR EACH ROW EXECUTE FUNCTION relight.refuse()
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(own=True) as one:
        yield one


def say(session: relight.Session, often: int = OFTEN) -> None:
    for number in range(often):
        session.append({"role": "user", "content": str(number)})


def said(session: relight.Session | relight.Loaded) -> list[str]:
    return [str(message["content"]) for message in session.messages]


def numbers(often: int = OFTEN) -> list[str]:
    return [str(number) for number in range(often)]


@pytest.mark.parametrize("most", [batching.MAX_BATCH, 2], ids=["all fit", "two fit"])
def test_sessions_that_write_at_the_same_time_share_transactions(
    server: Server, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "MAX_BATCH", most)
    monkeypatch.setattr(batching, "POLL_INTERVAL_SECONDS", 3600.0)  # every waiter must be woken
    url = server.database()
    with relight.open(url) as rl, ThreadPoolExecutor(MANY) as pool:
        sessions = [rl.session(f"s{number}") for number in range(MANY)]
        list(pool.map(say, sessions))
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*), count(DISTINCT xmin::text) FROM relight.steps").fetchone()
        for session in sessions:
            session.close()
            assert said(rl.history.load(session.id)) == numbers()
        assert row is not None and row[1] < row[0], row
        assert rl.history.verify().ok


def test_a_session_that_somebody_holds_on_the_server_keeps_no_other_waiting(server: Server) -> None:
    url = server.database()
    with relight.open(url) as rl, ThreadPoolExecutor(MANY) as pool, psycopg.connect(url) as holder:
        sessions = [rl.session(f"s{number}") for number in range(MANY)]
        held, *others = sessions
        holder.execute("SELECT 1 FROM relight.heads WHERE sid = (SELECT min(sid) FROM relight.sessions) FOR UPDATE")
        waiting = pool.submit(say, held)
        for done in [pool.submit(say, one) for one in others]:
            done.result(timeout=30)
        assert not waiting.done()
        holder.rollback()
        waiting.result(timeout=30)
        assert [said(one) for one in sessions] == [numbers()] * MANY


def test_what_the_server_refuses_of_one_is_refused_to_no_other(server: Server) -> None:
    url = server.database()
    with relight.open(url) as rl, ThreadPoolExecutor(MANY) as pool:
        sessions = [rl.session(f"s{number}") for number in range(MANY)]
        refused, *others = sessions
        with psycopg.connect(url) as connection:
            connection.execute(REFUSING)
        never = pool.submit(say, refused)
        for done in [pool.submit(say, one) for one in others]:
            done.result(timeout=30)
        with pytest.raises(StoreError):
            never.result(timeout=30)
        assert [said(one) for one in others] == [numbers()] * len(others)
        with psycopg.connect(url) as connection:
            connection.execute("DROP TRIGGER refuse ON relight.steps")
        refused.append({"role": "user", "content": "again"})


def test_a_wire_that_is_cut_loses_and_doubles_nothing_of_those_who_travel_together(
    server: Server, sample: Callable[..., int], figure: Figure
) -> None:
    """All of them are in doubt at once, and each asks for its own."""
    url, chance, cuts = server.database(), random.Random(11), sample(15, proof=500)
    done = threading.Event()

    def write(session: relight.Session) -> int:
        number, is_known = 0, True
        while not (done.is_set() and is_known):
            is_known = False
            with suppress(StoreUnavailable):  # the same again, until it is known
                session.append({"role": "user", "content": str(number)})
                number, is_known = number + 1, True
        return number

    with wire_to(server) as wire, relight.open(server.url(name_of(url), port=wire.port)) as rl:
        sessions = [rl.session(f"s{number}") for number in range(MANY)]
        with ThreadPoolExecutor(MANY) as pool:
            writers = [pool.submit(write, one) for one in sessions]
            for number in range(cuts):
                wire.cut = chance.choice(["before", "after"])
                wait_for(lambda number=number: wire.cuts > number, "a cut")  # type: ignore[misc]
            done.set()
            reported = [writer.result(timeout=60) for writer in writers]
        for session, count in zip(sessions, reported, strict=True):
            assert said(rl.history.load(session.id)) == numbers(count)
        assert rl.history.verify().ok
    figure(
        "G4",
        f"PostgreSQL: {cuts} cuts under {MANY} sessions writing at once, {sum(reported)} steps acknowledged, 0 lost",
    )


class Interrupted(BaseException):
    """As Ctrl-C, in any thread."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a connection in its hands is collected
def test_a_thread_that_is_interrupted_leaves_nobody_waiting_and_loses_nothing(
    server: Server, sample: Callable[..., int], figure: Figure
) -> None:
    url, seed = server.database(), random.randrange(2**32)
    print("seed", seed)
    chance, rounds, told_in_all = random.Random(seed), sample(3, proof=200), 0
    with relight.open(url) as rl:
        for number in range(rounds):
            reported: dict[str, int] = {}

            def write(name: str, reported: dict[str, int] = reported) -> None:
                session = rl.session(name)
                try:
                    for said_so_far in range(200):
                        session.append({"role": "user", "content": str(said_so_far)})
                        reported[name] = said_so_far + 1
                except Interrupted:
                    pass  # whatever is open stays open

            threads = [threading.Thread(target=write, args=(f"r{number}-{each}",)) for each in range(8)]
            for thread in threads:
                thread.start()
            wait_for(lambda reported=reported: len(reported) == 8, "everybody writes")  # type: ignore[misc]
            for thread in chance.sample(threads, 4):
                assert thread.ident is not None
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Interrupted))
            for thread in threads:
                thread.join(timeout=60)
                assert not thread.is_alive(), "nobody waits for who was interrupted"
            told_in_all += sum(reported.values())
            for name, count in reported.items():
                kept = said(rl.history.load(name))
                assert kept == numbers(len(kept)) and count <= len(kept) <= count + 1, name
        assert rl.history.verify().ok
    figure(
        "G1",
        f"PostgreSQL: {rounds * 4} threads interrupted while they wrote together, {told_in_all} steps told, 0 lost",
    )
