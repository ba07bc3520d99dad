"""A world of workers, leases and clocks in which a seed decides everything: who looks, who sleeps, who dies, and when.

Only the decisions are real: the commit plan, the claim, the slot of a queue, and what becomes of what was lost. Workers
look at a session and act later, on what they saw then; in between anything may happen. Every write is checked against
what a witness saw, so that no rule is taken at its word.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from relight.errors import Refused
from relight.journal.codec import encode_changes
from relight.journal.commit import plan_commit, plan_renewal
from relight.journal.queues.order import queue_row_of
from relight.journal.queues.slots import take_slot
from relight.journal.queues.takeover import after_loss, loss_reason
from relight.values.lease import Instant, Owner
from relight.values.queues import Queue, QueuePosition, Slots
from relight.values.session import Head, Identity
from relight.values.status import ENDED, LIVE, StatusChange
from relight.values.step import AttemptStart, Changes, Claim, Draft, Step

LEASE: Final = 5.0
STEPS: Final = 3
"""of each session"""
CONCURRENCY: Final = 2
_BODY: Final = encode_changes(Changes())
_KEY: Final = b"00000000"
_PLACE: Final = QueuePosition(queue="q", since_us=1)


class Broken(AssertionError):
    """A rule was broken; the text says which, and the seed."""


class Program:
    """One attempt in the hands of a worker, as it believes to be."""

    def __init__(self, session: str, owner: str, epoch: int, done: int) -> None:
        self.session, self.owner, self.epoch, self.done = session, owner, epoch, done


class World:
    """`seed` repeats it."""

    def __init__(self, seed: int, *, workers: int = 3, sessions: int = 3) -> None:
        self.seed, self.random = seed, Random(seed)
        self.now_us, self.owners = 0, 0
        self.identities = {f"s{n}": Identity(id=f"s{n}", created_us=n, queue_position=_PLACE) for n in range(sessions)}
        self.heads = {one: Head(session=one, queue_position=_PLACE) for one in self.identities}
        self.steps: dict[str, list[Step]] = {one: [] for one in self.identities}
        self.written: dict[str, int] = dict.fromkeys(self.identities, 0)
        """the counter that programs move: by one, from what they read"""
        self.epochs: dict[str, int] = dict.fromkeys(self.identities, 0)
        self.queue, self.slots = Queue(name="q", concurrency=CONCURRENCY), Slots()
        self.programs: list[list[Program]] = [[] for _ in range(workers)]
        self.seen: list[dict[str, Head]] = [{} for _ in range(workers)]
        self.writes = 0

    # -- the store ------------------------------------------------------------------------------------------------

    def instant(self) -> Instant:
        return Instant(timeline="t", us=self.now_us)

    def commit(self, session: str, draft: Draft) -> None:
        """As a store does it: plan on the truth, or a refusal; then the witness looks."""
        head = self.heads[session]
        committed = plan_commit(head, draft, at_us=self.now_us, now=self.instant())
        slots = self.slots
        if draft.claim is not None and draft.claim.slot:
            slots = take_slot(self.queue, slots, session, self.heads, self.instant())
        self.heads[session], self.slots = committed.head, slots
        self.steps[session].append(committed.step)
        self.writes += 1
        self._witness(session, head, draft)

    def _witness(self, session: str, before: Head, draft: Draft) -> None:
        epoch = draft.epoch if draft.claim is None else before.epoch + 1
        if epoch < self.epochs[session]:
            self.broken(f"{session}: a write of epoch {epoch} after one of {self.epochs[session]}")
        self.epochs[session] = epoch
        at_work = [one for one in self.heads.values() if one.status in LIVE and one.lease is not None]
        live = [one.session for one in at_work if one.lease is not None and not one.lease.expired(self.instant())]
        if draft.claim is not None and draft.claim.slot and len(live) > CONCURRENCY:
            self.broken(f"{len(live)} at work, {CONCURRENCY} allowed")
        row = queue_row_of(self.heads[session])
        if (row is None) != (self.heads[session].status != "queued"):
            self.broken(f"{session}: {self.heads[session].status} and in line {row}")

    def broken(self, what: str) -> None:
        raise Broken(f"seed {self.seed}: {what}")

    # -- what may happen ------------------------------------------------------------------------------------------

    def look(self, worker: int) -> None:
        """A worker reads all heads, and acts on them some time later."""
        self.seen[worker] = dict(self.heads)

    def take(self, worker: int) -> None:
        """Claim the first that stood in line when it looked."""
        for session, head in self.seen[worker].items():
            if head.status == "queued" and (head.wake_us or 0) <= self.now_us:
                self.owners += 1
                owner = f"o{self.owners}"
                if self._claim(head, owner):
                    self.programs[worker].append(Program(session, owner, head.epoch + 1, self.written[session]))
                self.seen[worker] = {}
                return

    def _claim(self, head: Head, owner: str) -> bool:
        claim = Claim(owner=Owner(id=owner), seconds=LEASE, expected_epoch=head.epoch, expected_seq=head.seq, slot=True)
        attempt = AttemptStart(number=head.attempt + 1, resumed_from=head.head)
        change = StatusChange(status="working")
        draft = Draft(kind="attempt", body=_BODY, key=_KEY, claim=claim, attempt=attempt, status=change)
        return self._try(head.session, draft)

    def _try(self, session: str, draft: Draft) -> bool:
        try:
            self.commit(session, draft)
        except Refused:
            return False
        return True

    def work(self, worker: int) -> None:
        """A program writes its next step, or completes; refused, it ends."""
        if not self.programs[worker]:
            return
        program = self.random.choice(self.programs[worker])
        ends = program.done == STEPS
        change = StatusChange(status="completed") if ends else None
        draft = Draft(
            kind="status" if ends else "message",
            body=_BODY,
            key=_KEY,
            owner=program.owner,
            epoch=program.epoch,
            status=change,
            release=ends,
        )
        if not self._try(program.session, draft):
            self.programs[worker].remove(program)
            return
        if ends:
            self.programs[worker].remove(program)
            return
        if self.written[program.session] != program.done:
            self.broken(f"{program.session}: step {program.done} written when {self.written[program.session]} was next")
        program.done += 1
        self.written[program.session] = program.done

    def beat(self, worker: int) -> None:
        for program in list(self.programs[worker]):
            try:
                head = self.heads[program.session]
                self.heads[program.session] = plan_renewal(
                    head, owner=program.owner, epoch=program.epoch, now=self.instant()
                )
            except Refused:
                self.programs[worker].remove(program)

    def die(self, worker: int) -> None:
        """All at once, and nobody sees it: another machine."""
        self.programs[worker], self.seen[worker] = [], {}

    def drain(self, worker: int) -> None:
        for program in self.programs[worker]:
            change = StatusChange(status="queued", reason="drained")
            draft = Draft(
                kind="status",
                body=_BODY,
                key=_KEY,
                owner=program.owner,
                epoch=program.epoch,
                status=change,
                release=True,
            )
            self._try(program.session, draft)
        self.programs[worker] = []

    def sweep(self, worker: int) -> None:
        """Put back what is lost, by what this worker saw when it looked, judged by the time now."""
        for session, head in self.seen[worker].items():
            why = loss_reason(head, owner_gone=None, now=self.instant())
            if why is None:
                continue
            latest = self.steps[session][-200:]
            identity = self.identities[session]
            change = after_loss(identity, head, why, latest=latest, has_transcript=False, retries=None)
            claim = Claim(owner=Owner(id="sweeper"), seconds=1.0, expected_epoch=head.epoch, expected_seq=head.seq)
            self._try(session, Draft(kind="status", body=_BODY, key=_KEY, claim=claim, release=True, status=change))

    def pass_time(self) -> None:
        self.now_us += round(self.random.choice((0.1, 1.0, 3.0, LEASE + 0.1)) * 1e6)

    def stop(self) -> None:
        """A person asks, from elsewhere, that an attempt ends."""
        session = self.random.choice(list(self.identities))
        identity = self.identities[session]
        self.identities[session] = msgspec.structs.replace(identity, stop_attempt=self.heads[session].attempt)

    # -- a schedule -----------------------------------------------------------------------------------------------

    def run(self, events: int) -> None:
        """Chaos, then peace: whoever is left must end."""
        acts = (self.look, self.look, self.take, self.take, self.work, self.work, self.work, self.beat, self.sweep)
        rare = (self.die, self.drain)
        for _ in range(events):
            dice = self.random.random()
            if dice < 0.15:
                self.pass_time()
            elif dice < 0.17:
                self.stop()
            else:
                act = self.random.choice(rare if dice < 0.25 else acts)
                act(self.random.randrange(len(self.programs)))
        self.settle()

    def settle(self) -> None:
        """One honest worker, and everything it needs: nothing may be stranded."""
        for worker in range(len(self.programs)):
            self.die(worker)
        for _ in range(len(self.heads) * (STEPS + 6)):
            if all(head.status in ENDED for head in self.heads.values()):
                break
            self.now_us += round((LEASE + 1) * 1e6)
            self.look(0)
            self.sweep(0)
            self.look(0)
            self.take(0)
            for _ in range(STEPS + 1):
                self.work(0)
        for session, head in self.heads.items():
            if head.status not in ENDED:
                self.broken(f"{session} is stranded: {head.status}")
            if head.status == "completed" and self.written[session] != STEPS:
                self.broken(f"{session} completed after {self.written[session]} of {STEPS} steps")
            if head.status == "terminated" and self.identities[session].stop_attempt is None:
                self.broken(f"{session} was terminated, and nobody asked")
