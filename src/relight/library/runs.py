"""`rl.runs`: programs and coding agents under supervision: started, resumed, stopped, answered, adopted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relight.errors import NotResumable, Refused, StoreError, UsageError
from relight.history.loading import resolve
from relight.journal.resume_plan import plan_hash
from relight.library.noun import Noun
from relight.sessions import limits as limiting
from relight.sessions import opening
from relight.system.lazy_module import LazyModule
from relight.values.checkpoint import Checkpoint
from relight.values.info import ResumePlan, SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions, RunOptions
from relight.values.outcome import Resumed, resumed
from relight.values.session import Head, Pending

if TYPE_CHECKING:
    from relight.files import repositories
    from relight.history import fork as forking
    from relight.history import repair
    from relight.library import planning
    from relight.operations import output as outputs
    from relight.operations import send as sending
    from relight.operations import settle as settling
    from relight.supervision import adopt as adopting
    from relight.supervision import agent as agents
    from relight.supervision import approvals, first_start, program, watcher
    from relight.supervision import attach as attaching
    from relight.supervision import launch as launching
    from relight.supervision import pause as pausing
    from relight.supervision import stop as stopping
else:
    repositories, forking, repair, planning, sending, settling = map(
        LazyModule,
        (
            "relight.files.repositories",
            "relight.history.fork",
            "relight.history.repair",
            "relight.library.planning",
            "relight.operations.send",
            "relight.operations.settle",
        ),
    )
    outputs = LazyModule("relight.operations.output")
    adopting, attaching, agents, approvals, first_start, program, watcher, launching, pausing, stopping = map(
        LazyModule,
        (
            "relight.supervision.adopt",
            "relight.supervision.attach",
            "relight.supervision.agent",
            "relight.supervision.approvals",
            "relight.supervision.first_start",
            "relight.supervision.program",
            "relight.supervision.watcher",
            "relight.supervision.launch",
            "relight.supervision.pause",
            "relight.supervision.stop",
        ),
    )


class Runs(Noun):
    """Supervised programs and coding agents, each the command of a session."""

    # -- starting ---------------------------------------------------------------------------------------------

    def start(self, command: Sequence[str], options: RunOptions) -> Resumed:
        """Start a command under supervision, in the foreground, to its end; `ended` is the session then."""
        return self._ended(self.supervise(self.plan_launch(command, options)))

    def create(self, command: Sequence[str], options: RunOptions) -> SessionInfo:
        """Create a session that knows its command and its workspace; `resume` or `supervise` starts it."""
        return self._info(launching.launch(self._context, command, options).id)

    def plan(self, ref: str, *, disk: bool = True, options: ResumeOptions = AS_IT_IS) -> ResumePlan:
        """What a resume would do, and what prevents it; `disk` compares the files with the disk, which walks the
        directory. `options`: the options it would be given."""
        return planning.plan(self._context, self._found(ref), disk=disk, options=options)

    def agents(self) -> list[str]:
        """Names of the coding agents that a session can be handed over to: the option `agent` of a resume."""
        return sorted(one.name for one in self._context.agents.known() if one.dialect is not None)

    def plan_hash(self, ref: str) -> str:
        """The plan hash of `plan`, without computing the plan; empty for a damaged session."""
        found = self._found(ref)
        return plan_hash(found.head, found.seq) if found.head is not None else ""

    def resume(self, ref: str, options: ResumeOptions = AS_IT_IS) -> Resumed:
        """Continue a session that `relight run` began, in the foreground, to its end; `ended` is the session then."""
        found = self._found(ref)
        if not options.restore and found.head is not None:
            opening.refuse_archived(found)
            repositories.check_opening(self._context, found, before=found.identity)
        return self._ended(self.supervise(ref, options))

    def _ended(self, supervision: program.Supervision) -> Resumed:
        ended = supervision.run()
        assert supervision.outcome is not None, "set once its program runs"
        return resumed(supervision.outcome, ended.session, ended.exit.shell_code)

    def prepare(self, ref: str, *, prompt: str | None = None, from_last_good: bool = False) -> SessionInfo:
        """Everything of a resume but the start: the checkpoint chosen (a fork before the head), the prompt added."""
        found = self._found(ref)
        if not from_last_good or found.head is not None:
            opening.refuse_archived(found)
        if from_last_good and repair.go_back_to_whole(self._context, found) is not None:
            found = self._found(found.identity.id)
        if found.seq is not None and found.seq != found.whole_head().head:
            return self._info(forking.fork(self._context, found, prompt=prompt).id)
        if prompt is not None:
            sending.add_prompt(self._context, opening.recorder_for(self._context, found), prompt)
        return self._info(found.identity.id)

    def plan_launch(self, command: Sequence[str], options: RunOptions) -> Pending:
        """Like `create`, without creating a session: `supervise` on the result creates it with its first attempt."""
        identity = launching.planned(self._context, command, options)
        return Pending(identity=identity, head=Head(session=identity.id))

    def plan_start(self, ref: str, options: ResumeOptions) -> Pending | None:
        """The session that a start would create, or None if it continues the existing one. Refuses what could not be
        started, and what is owned. Nothing is changed."""
        pausing.refuse_paused(self._context)
        planned = first_start.plan(self._context, ref, options)
        if planned.pending is None:
            found = self._found(planned.session)
            evidence = opening.evidence_of(self._context, found.whole_head())
            opening.refuse_if_held(self._context, found.identity, found.whole_head(), evidence)
        return planned.pending

    def check_start(self, ref: str, options: ResumeOptions = AS_IT_IS) -> None:
        """Refuse what could not be started, and what is owned; nothing is changed."""
        pausing.refuse_paused(self._context)
        found = self._found(ref)
        head = found.whole_head()
        launching.check_startable(self._context, found, options)
        if found.seq is None or found.seq == head.head:
            opening.refuse_if_held(self._context, found.identity, head, opening.evidence_of(self._context, head))

    def clear_away(self, pending: Pending) -> None:
        """Remove what a killed start left of a session that was never created."""
        first_start.clear_away(self._context, pending)

    def supervise(self, ref: str | Pending, options: ResumeOptions = AS_IT_IS) -> program.Supervision:
        """Plan a resume, or a first start; `run` on the result starts the program. Nothing is changed before `run`,
        and a start that fails leaves everything as it was. Before the head a fork is created, with the checkpoint's
        files in its own directory (`options.workspace`), or `in_place`."""
        context = self._context
        pausing.refuse_paused(context)
        if isinstance(ref, Pending):
            made = first_start.FirstStart(context, ref.identity.id, options, pending=ref)
        else:
            made = first_start.plan(context, ref, options)
        # By its own store: a session that is pending exists nowhere else yet.
        identity = resolve(made.context.store, made.session).identity
        if context.agent(identity).capabilities.transcript:  # the agent gets the prompt and records it itself
            return agents.AgentSupervision(context, made.session, options, first_start=made)
        return program.Supervision(context, made.session, options, first_start=made)

    def attend(self, session: str, *, worker: str, owner: str | None, retries: int | None) -> program.Supervision:
        """For a worker's own process: a supervision that takes over the lease held under `owner` or, without one,
        first restores the session's workspace on this machine."""
        context, found = self._context, self._found(session)
        handover = watcher.Handover(worker=worker, owner=owner)
        options = ResumeOptions(retries=retries, restore=owner is None)
        made: program.Supervision
        if context.agent(found.identity).capabilities.transcript:
            made = agents.AgentSupervision(context, found.identity.id, options, handover=handover)
        else:
            made = program.Supervision(context, found.identity.id, options, handover=handover)
        try:
            launching.check_startable(context, found, options)
        # An unavailable store says nothing about the session. Recording a refusal would fail a session that another
        # worker can start.
        except StoreError:
            raise
        except (NotResumable, Refused, UsageError) as error:
            made.refuse(error, limiting.used_up(context, found, found.identity.policy))
            raise
        if options.restore:
            launching.bring_back(context, found)
        return made

    # -- while it runs ----------------------------------------------------------------------------------------

    def stop(self, ref: str, *, tree: bool = False) -> stopping.Stopped:
        """End the process that runs a session on this machine: by a signal first, by SIGKILL if it does not react.
        `tree`: then those of all its children."""
        return (stopping.stop_tree if tree else stopping.stop)(self._context, self._whole(ref, "stopped"))

    def send(self, ref: str, text: str) -> Checkpoint | None:
        """Answer a waiting session, give a stopped one its next prompt, or type to a live agent (None: see its
        transcript)."""
        found = self._whole(ref, "sent a text")
        if sending.deliver(self._context, found, text):
            return None
        return sending.send(self._context, found, text)

    def approve(self, ref: str) -> Checkpoint:
        """Allow the tool call that a session waits for."""
        return approvals.decide(self._context, self._whole(ref, "approved"), allow=True)

    def deny(self, ref: str, *, reason: str | None = None) -> Checkpoint:
        """Deny the tool call that a session waits for. The model gets the `reason`."""
        return approvals.decide(self._context, self._whole(ref, "denied"), allow=False, reason=reason)

    def settle(self, ref: str, call: str, *, result: Any = None, retry: bool = False) -> Checkpoint:
        """Record the outcome of a call in doubt: its result, or that it may run again."""
        return settling.settle(self._context, self._whole(ref, "settled"), call, result=result, retry=retry)

    def attach(self, ref: str) -> list[str]:
        """The command that attaches to a session's terminal. Refused if it has none."""
        return attaching.attach(self._context, self._found(ref))

    def output(self, ref: str) -> list[outputs.Output]:
        """What a session's program printed last: the screen of its terminal, the end of its logs; redacted."""
        return outputs.output_of(self._context, self._found(ref))

    def adopt(
        self,
        native: str | None = None,
        *,
        directory: str,
        command: Sequence[str] = (),
        name: str | None = None,
    ) -> SessionInfo:
        """Take over a native session that a coding agent began without relight; by default this directory's newest."""
        made = adopting.adopt(self._context, native, directory=directory, command=command, name=name)
        return self._info(made.id)

    def adoptable(self, *, most: int = 50) -> list[adopting.Adoptable]:
        """Native sessions on this machine that `adopt` could take over, newest first."""
        return adopting.found_here(self._context, limit=most)

    def command(self, agent: str | None, prompt: str | None) -> list[str]:
        """The command line that runs a named agent with a prompt and without a screen. UsageError if there is none."""
        return launching.headless(self._context, agent, prompt)

    def directory(self, ref: str) -> Path:
        """The run directory of a session: its logs, its hook socket. A full id need not exist yet."""
        is_id = re.fullmatch("[0-9a-f]{32}", ref) is not None
        return self._context.run_directory(ref if is_id else self._found(ref).identity.id)

    def take_command(self, session: str) -> tuple[str, ...] | None:
        """The command line given to `create`, if the stored one is redacted; for one start in another process."""
        return self._context.commands.pop(session, None)
