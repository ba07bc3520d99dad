"""A program's own conversation handed to a real coding agent: from the library and from a LangGraph thread, killed with
a call cut off, with an image and parallel calls; and back as plain messages. Offline, as in test_real_adapters.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import relight
from tests.integration.agents.test_real_hand_over import CLAUDE
from tests.integration.agents.test_real_mesh import PIXEL
from tests.support.agent_harness import SECONDS, UNKNOWN, append, harness, lines
from tests.support.neutral import Said, _image, asked, said_to

pytestmark = [pytest.mark.agents, pytest.mark.crash]
NEXT = "now finish it"
LIBRARY = f"""
import os, relight
image = {{"type": "image", "source": {{"type": "base64", "media_type": "image/png", "data": "{PIXEL}"}}}}

def call(name, id):
    return {{"type": "tool_use", "id": id, "name": "lookup", "input": {{"q": name}}}}

with relight.session("job", provider="anthropic") as s:
    s.append({{"role": "user", "content": [{{"type": "text", "text": "look at this"}}, image]}})
    both = [{{"type": "text", "text": "both at once"}}, call("one", "t1"), call("two", "t2")]
    s.append({{"role": "assistant", "content": both}})
    first = {{"type": "tool_result", "tool_use_id": "t1", "content": "first found"}}
    second = {{"type": "tool_result", "tool_use_id": "t2", "content": "second missing", "is_error": True}}
    s.append({{"role": "user", "content": [first, second]}})
    s.append({{"role": "assistant", "content": [{{"type": "text", "text": "one more"}}, call("three", "t3")]}})
    os.kill(os.getpid(), 9)
"""
GRAPH = f"""
import os, relight
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from relight.frameworks.langgraph import RelightSaver

def call(name, id):
    return {{"name": "lookup", "args": {{"q": name}}, "id": id}}

def asks(state):
    return {{"messages": [AIMessage("both at once", tool_calls=[call("one", "t1"), call("two", "t2")])]}}

def finds(state):
    failed = ToolMessage("second missing", tool_call_id="t2", status="error")
    return {{"messages": [ToolMessage("first found", tool_call_id="t1"), failed]}}

def asks_again(state):
    return {{"messages": [AIMessage("one more", tool_calls=[call("three", "t3")])]}}

def dies(state):
    os.kill(os.getpid(), 9)

graph = StateGraph(MessagesState)
nodes = [asks, finds, asks_again, dies]
for node in nodes:
    graph.add_node(node.__name__, node)
for before, after in zip([START, *(node.__name__ for node in nodes)], [*(node.__name__ for node in nodes), END]):
    graph.add_edge(before, after)
picture = {{"type": "image_url", "image_url": {{"url": "data:image/png;base64,{PIXEL}"}}}}
first = HumanMessage([{{"type": "text", "text": "look at this"}}, picture])
with relight.open() as rl:
    app = graph.compile(checkpointer=RelightSaver(rl))
    app.invoke({{"messages": [first]}}, {{"configurable": {{"thread_id": "job"}}}}, durability="sync")
"""
HISTORY: list[Said] = [
    ("user", "look at this"),
    _image(PIXEL),
    ("assistant", "both at once"),
    asked("lookup", {"q": "one"}),
    asked("lookup", {"q": "two"}),
    ("result", "first found"),
    ("result", "second missing"),
    ("assistant", "one more"),
    asked("lookup", {"q": "three"}),
]


@pytest.mark.parametrize("target", ["codex", "claude"])
@pytest.mark.parametrize("program", [LIBRARY, GRAPH], ids=["library", "langgraph"])
def test_a_programs_conversation_goes_on_whole_in_a_coding_agent_and_back_as_messages(
    program: str, target: str, tmp_path: Path
) -> None:
    with harness(target, tmp_path, {"mode": "requests", "slots": [append("one"), {"text": "all done"}]}) as s:
        died = subprocess.run(
            [sys.executable, "-c", program],
            cwd=s.work,
            env=s.environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert died.returncode == -9, died.stderr
        s.do("resume", "job", NEXT, "--agent", CLAUDE if target == "claude" else target, "--yes")
        first = said_to(s.model.requests()[0])
        closing = first[len(HISTORY)]
        assert first == [*HISTORY, closing, ("user", NEXT)], json.dumps(first, indent=1)
        assert closing[0] == "result" and UNKNOWN in closing[1], closing
        s.remembers("look at this", "one more", NEXT)
        assert lines(s.work) == ["one"] and s.info().status == "completed"
        with relight.open(s.store, create=False) as rl:
            for format in ("anthropic", "openai_chat", "openai_responses"):
                back = rl.history.messages("job", format=format)
                text = json.dumps(back)
                for part in ("look at this", PIXEL, "first found", "second missing", UNKNOWN, NEXT, "all done"):
                    assert part in text, (format, part)
                with rl.session(f"back-{format}") as again:
                    again.replace(back)
                    assert len(again.messages) == len(back)
                assert rl.history.verify(f"back-{format}").ok
