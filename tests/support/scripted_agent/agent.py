"""One run of the agent: begin or resume a session, ask the model, run its tools, until it is done."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

from tests.support.scripted_agent import tools
from tests.support.scripted_agent.asking import Model
from tests.support.scripted_agent.conversation import FILLER, UNANSWERED, ends_in_result, messages_of, open_calls
from tests.support.scripted_agent.failing import ApiError
from tests.support.scripted_agent.hooks import Hooks
from tests.support.scripted_agent.options import VERSION, Options, hooks_of
from tests.support.scripted_agent.printing import Printer
from tests.support.scripted_agent.transcript import Line, Transcript, blocks, branch, config_directory, location, read

FLUSH_MS: Final = 100.0
_GO_ON: Final = "Continue from where you left off."
Call = dict[str, Any]


class Refusal(Exception):
    """It will not start; the text goes to stderr, the code is 1."""


class Interrupted(Exception):
    """SIGINT, seen where it can be acted on."""


class Agent:
    """A session that is open in this process."""

    def __init__(self, options: Options, variables: Mapping[str, str]) -> None:
        self.options = options
        self.directory = os.getcwd()
        self.stopped = threading.Event()
        self.config = config_directory(variables)
        self.lines: list[Line] = []
        """the conversation so far"""
        self.turns = 0
        self._variables = variables
        self.model = Model(variables, self.stopped)
        self.session, older = self._chosen()
        path = location(self.config, Path(self.directory), self.session)
        flush_ms = float(variables.get("SCRIPTED_AGENT_FLUSH_MS") or FLUSH_MS)
        self.transcript = Transcript(path, self.session, self.directory, flush_ms=flush_ms)
        self.printer = Printer(options.output if options.print else "screen", self.session)
        reported = {"session_id": self.session, "transcript_path": str(path), "cwd": self.directory}
        self.hooks = Hooks(hooks_of(options, self.config, Path(self.directory)), reported, self.directory)
        self.deferred: Call | None = None
        self._load(older)

    # ---------------------------------------------------------------- which session

    def _chosen(self) -> tuple[str, Path | None]:
        """The id of this session, and the transcript it goes on from."""
        options, other = self.options, self._variables.get("SCRIPTED_AGENT_OTHER_ID")
        if options.resume is None:
            session = options.session_id or str(uuid.uuid4())
            if location(self.config, Path(self.directory), session).exists():
                raise Refusal(f"Error: Session ID {session} is already in use.")
            return session, None
        older = location(self.config, Path(self.directory), options.resume)
        if other:
            return other, None
        if not older.is_file():
            raise Refusal(f"No conversation found with session ID: {options.resume}")
        if options.fork:
            return options.session_id or str(uuid.uuid4()), older
        return options.resume, older

    def _load(self, older: Path | None) -> None:
        if older is None:
            return
        every = read(older)
        self.lines = branch(every)
        if older != self.transcript.path:
            self.transcript.take_over(every)
        self.transcript.last = self.lines[-1]["uuid"] if self.lines else None
        pending = open_calls(self.lines)
        marked = [line["attachment"] for line in every if line.get("type") == "attachment"]
        names = {one.get("toolUseID") for one in marked if one.get("type") == "hook_deferred_tool"}
        self.deferred = next((call for call in pending if call["id"] in names), None)

    # ---------------------------------------------------------------- the whole

    def begin(self) -> None:
        """Run the SessionStart hooks and print the init event."""
        self.hooks.run("SessionStart", source="resume" if self.options.resume else "startup")
        names = [tool["name"] for tool in tools.OFFERED]
        reported = {"cwd": self.directory, "tools": names, "model": self.options.model, "claude_code_version": VERSION}
        self.printer.event("system", subtype="init", permissionMode="bypassPermissions", **reported)

    def take_prompt(self, prompt: str | None) -> bool:
        """Hear the user, and answer what was left open. False where a deferred tool is deferred again."""
        if prompt is None and self.deferred is None:
            raise Refusal("Error: No deferred tool marker found in the resumed session. Provide a prompt to continue.")
        if prompt is None and self.deferred is not None:
            if self._run_calls([self.deferred]):
                return False
            self._say_user(_GO_ON, isMeta=True)
            return True
        for call in open_calls(self.lines):
            self._answer(call, tools.Done(text=UNANSWERED, reported=UNANSWERED, failed=True))
        if ends_in_result(self.lines):
            message = {"id": str(uuid.uuid4()), "role": "assistant", "model": "<synthetic>", "type": "message"}
            reported = {**message, "stop_reason": "stop_sequence", "content": [{"type": "text", "text": FILLER}]}
            self.lines.append(self.transcript.add("assistant", message=reported))
        self._say_user(prompt or "")
        return True

    def work(self) -> int:
        """Until the model has nothing more to do. The exit code."""
        while True:
            if self.options.max_turns is not None and self.turns >= self.options.max_turns:
                errors = [f"Reached maximum number of turns ({self.options.max_turns})"]
                self.printer.result(
                    "", turns=self.turns, subtype="error_max_turns", terminal_reason="max_turns", errors=errors
                )
                return 1
            try:
                reply = self._ask()
            except ApiError as error:
                if self.stopped.is_set():
                    raise Interrupted from None
                return self._give_up(error)
            calls = [block for block in reply["content"] if block["type"] == "tool_use"]
            if calls and self._run_calls(calls):
                self.printer.result("", turns=self.turns, stop_reason="tool_deferred", terminal_reason="tool_deferred")
                return 0
            if not calls:
                text = "".join(block["text"] for block in reply["content"] if block["type"] == "text")
                self.hooks.run("Stop", stop_hook_active=False, last_assistant_message=text)
                self.printer.result(text, turns=self.turns, stop_reason="end_turn", terminal_reason="completed")
                return 0

    def end(self, reason: str = "other") -> None:
        """Run the SessionEnd hooks and flush the transcript."""
        self.hooks.run("SessionEnd", reason=reason)
        self.transcript.note("last-prompt", leafUuid=self.transcript.last)
        self.transcript.flush()

    def interrupted(self) -> None:
        """Record the interruption by SIGINT, as Claude Code does."""
        calls = open_calls(self.lines)
        for call in calls:
            text = "[Request interrupted by user for tool use]"
            self._answer(call, tools.Done(text=text, reported=f"Error: {text}", failed=True))
        content = [{"type": "text", "text": "[Request interrupted by user]"}]
        self.lines.append(self.transcript.add("user", message={"role": "user", "content": content}))
        reason = "aborted_tools" if calls else "aborted_streaming"
        self.printer.result("", turns=self.turns, subtype="error_during_execution", terminal_reason=reason)

    # ---------------------------------------------------------------- the model

    def _ask(self) -> dict[str, Any]:
        body = {
            "model": self.options.model,
            "max_tokens": 32_000,
            "stream": True,
            "system": [{"type": "text", "text": "You are a scripted agent."}],
            "tools": tools.OFFERED,
            "messages": messages_of(self.lines),
            "metadata": {"user_id": self.session},
        }
        reply = self.model.ask(body, again=self._told_of_retry)
        self.turns += 1
        self.printer.counted(reply["usage"])
        for block in reply["content"]:
            line = self.transcript.add("assistant", message={**reply, "content": [block]}, madeBy="model")
            self.lines.append(line)
            self.printer.said(line)
        return reply

    def _told_of_retry(self, error: ApiError, attempt: int, most: int, pause: float) -> None:
        retry = {"attempt": attempt, "max_retries": most, "retry_delay_ms": round(pause * 1000)}
        self.printer.event("system", subtype="api_retry", **retry, error_status=error.status, error=error.error)

    def _give_up(self, error: ApiError) -> int:
        """The model did not answer: a line that no model said, and exit code 1."""
        if error.limit is not None:
            self.printer.event("rate_limit_event", rate_limit_info=error.limit)
        message = {
            "id": str(uuid.uuid4()),
            "model": "<synthetic>",
            "role": "assistant",
            "type": "message",
            "stop_reason": "stop_sequence",
            "usage": {"input_tokens": 0, "output_tokens": 0},
            "content": [{"type": "text", "text": error.text}],
        }
        line = self.transcript.add("assistant", message=message, **error.fields())
        self.lines.append(line)
        self.printer.said(line, **error.printed())
        self.printer.result(error.text, turns=max(self.turns, 1), error=error)
        return 1

    def _say_user(self, text: str, **fields: Any) -> None:
        self.transcript.note("queue-operation", operation="enqueue", content=text)
        self.transcript.note("queue-operation", operation="dequeue")
        self.hooks.run("UserPromptSubmit", prompt=text)
        first, message = not self.lines, {"role": "user", "content": text}
        self.lines.append(self.transcript.add("user", message=message, promptId=str(uuid.uuid4()), **fields))
        if first:
            snapshot = {"workingDirectory": self.directory, "platform": "linux"}
            self.transcript.add("attachment", attachment={"type": "environment", "snapshot": snapshot})

    # ---------------------------------------------------------------- tools

    def _run_calls(self, calls: list[Call]) -> bool:
        """Run the calls of a reply; those that only look run beside one another. True: one was deferred."""
        for group in _groups(calls):
            deferred = []
            with ThreadPoolExecutor(len(group)) as pool:
                running = {pool.submit(self._run_call, call): call for call in group}
                for one in as_completed(running):
                    if self.stopped.is_set():
                        raise Interrupted
                    done = one.result()
                    if done is None:
                        deferred.append(running[one])
                    else:
                        self._answer(running[one], done)
            for call in deferred:
                marker = {"type": "hook_deferred_tool", "toolUseID": call["id"], "toolName": call["name"]}
                self.transcript.add("attachment", attachment={**marker, "toolInput": call["input"]})
            if deferred:
                return True
        return False

    def _run_call(self, call: Call) -> tools.Done | None:
        """One call with its hooks; None where it was deferred."""
        reported = {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}
        verdict = self.hooks.run("PreToolUse", tool=call["name"], **reported)
        if verdict.decision == "defer":
            return None
        if verdict.decision == "deny":
            text = f"PreToolUse:{call['name']} hook error: {verdict.reason}"
            return tools.Done(text=text, reported=f"Error: {text}", failed=True)
        done = tools.run(call["name"], call["input"], self.directory)
        if done.failed:
            self.hooks.run("PostToolUseFailure", tool=call["name"], **reported, error=done.text, is_interrupt=False)
        else:
            self.hooks.run("PostToolUse", tool=call["name"], **reported, tool_response=done.reported)
        return done

    def _answer(self, call: Call, done: tools.Done) -> None:
        block = {"type": "tool_result", "tool_use_id": call["id"], "content": done.text, "is_error": done.failed}
        asking = next(
            line["uuid"] for line in self.lines if any(one["id"] == call["id"] for one in blocks(line, "tool_use"))
        )
        line = self.transcript.add(
            "user",
            parent=asking,
            message={"role": "user", "content": [block]},
            toolUseResult=done.reported,
            sourceToolAssistantUUID=asking,
        )
        self.lines.append(line)
        self.printer.said(line, tool_use_result=done.reported)


def _groups(calls: list[Call]) -> Iterator[list[Call]]:
    """Calls that may run at the same time, in order."""
    group: list[Call] = []
    for call in calls:
        if tools.changes_nothing(call["name"], call["input"]):
            group.append(call)
            continue
        if group:
            yield group
        yield [call]
        group = []
    if group:
        yield group
