"""The fake model speaks three APIs, plays its script, breaks on demand, and remembers every request."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_model import FakeModel, ScriptError, pairs, read_log, texts, unpaired

TOOLS: dict[str, list[dict[str, Any]]] = {
    "messages": [{"name": "Bash", "input_schema": {"type": "object"}}, {"name": "Write"}, {"name": "Edit"}],
    "responses": [{"type": "function", "name": "exec_command"}],
    "chat": [{"type": "function", "function": {"name": "bash"}}],
}
PATHS = {"messages": "/v1/messages?beta=true", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
APIS = list(PATHS)
SHELL = [{"text": "looking", "calls": [{"shell": "ls"}, {"shell": "pwd"}]}, {"text": "all done"}]


def body(api: str, history: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "go"}, *(history or [])]
    conversation = {"input": said} if api == "responses" else {"messages": said}
    return {"model": "m", "tools": TOOLS[api], **conversation, **more}


def post(model: FakeModel, api: str, given: dict[str, Any], path: str = "") -> Any:
    request = urllib.request.Request(model.url + (path or PATHS[api]), json.dumps(given).encode(), method="POST")
    request.add_header("authorization", "Bearer sk-secret")
    with urllib.request.urlopen(request, timeout=60) as response:
        text = response.read().decode()
    return [*events(text)] if given.get("stream") else json.loads(text)


def refusal(model: FakeModel, api: str, given: dict[str, Any]) -> tuple[int, dict[str, Any], Any]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(model, api, given)
    with caught.value as error:
        return error.code, json.loads(error.read()), error.headers


def events(text: str) -> Iterator[Any]:
    for block in filter(None, text.split("\n\n")):
        data = block.partition("data: ")[2]
        yield data if data == "[DONE]" else json.loads(data)


def next_history(api: str, answer: Any, results: list[str]) -> list[Any]:
    """What a client sends back after a whole answer."""
    match api:
        case "messages":
            calls = [block for block in answer["content"] if block["type"] == "tool_use"]
            given = zip(calls, results, strict=True)
            reported = [{"type": "tool_result", "tool_use_id": call["id"], "content": text} for call, text in given]
            return [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": reported}]
        case "responses":
            calls = [item for item in answer["output"] if item["type"] == "function_call"]
            given = zip(calls, results, strict=True)
            outputs = [
                {"type": "function_call_output", "call_id": call["call_id"], "output": text} for call, text in given
            ]
            return [*answer["output"], *outputs]
        case _:
            message = answer["choices"][0]["message"]
            given = zip(message["tool_calls"], results, strict=True)
            return [message, *({"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in given)]


def said_whole(api: str, answer: Any) -> tuple[str, list[Any]]:
    """The text and the arguments of the calls of a whole answer."""
    match api:
        case "messages":
            text = "".join(block.get("text", "") for block in answer["content"])
            return text, [block["input"] for block in answer["content"] if block["type"] == "tool_use"]
        case "responses":
            text = "".join(part["text"] for item in answer["output"] for part in item.get("content", []))
            calls = [item["arguments"] for item in answer["output"] if item["type"] == "function_call"]
            return text, [json.loads(arguments) for arguments in calls]
        case _:
            message = answer["choices"][0]["message"]
            calls = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
            return message["content"] or "", [json.loads(arguments) for arguments in calls]


def said_streamed(api: str, stream: list[Any]) -> tuple[str, list[Any]]:
    """The same, put together from the pieces of a stream, as a client does."""
    text, parts = "", dict[int, str]()
    for event in stream:
        if api == "messages" and event["type"] == "content_block_delta":
            text += event["delta"].get("text", "")
            if "partial_json" in event["delta"]:
                parts[event["index"]] = parts.get(event["index"], "") + event["delta"]["partial_json"]
        elif api == "responses":
            text += event["delta"] if event["type"] == "response.output_text.delta" else ""
            if event["type"] == "response.function_call_arguments.delta":
                parts[event["output_index"]] = parts.get(event["output_index"], "") + event["delta"]
        elif api == "chat" and event != "[DONE]":
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls", []):
                    parts[call["index"]] = parts.get(call["index"], "") + call["function"]["arguments"]
    return text, [json.loads(parts[index]) for index in sorted(parts)]


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("api", APIS)
def test_streams_say_what_whole_answers_say(api: str) -> None:
    with FakeModel([SHELL[0]]) as model:
        whole = said_whole(api, post(model, api, body(api)))
        assert whole[0] == "looking"
        assert whole == said_streamed(api, post(model, api, body(api, stream=True)))
        key = {"messages": "command", "responses": "cmd", "chat": "command"}[api]
        assert [call[key] for call in whole[1]] == ["ls", "pwd"]


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_moves_along_the_script(api: str) -> None:
    with FakeModel(SHELL, strict=True) as model:
        first = post(model, api, body(api))
        history = next_history(api, first, ["a.txt", "/tmp"])
        assert said_whole(api, post(model, api, body(api, history))) == ("all done", [])
        last = model.requests()[-1]
        assert unpaired(last.items) == []
        assert [result.value for _, result in pairs(last.items) if result is not None] == ["a.txt", "/tmp"]
        assert texts(last.items, "user") == ["go"]
        assert [request.slot for request in model.requests()] == [0, 1]


def test_a_reply_cut_between_its_calls_is_completed() -> None:
    with FakeModel(SHELL) as model:
        first = post(model, "messages", body("messages"))
        kept = {**first, "content": first["content"][:2]}
        again = post(model, "messages", body("messages", next_history("messages", kept, ["a.txt"])))
        assert said_whole("messages", again) == ("", [{"command": "pwd", "description": "scripted"}])


def test_a_call_whose_outcome_is_unknown_is_made_again_if_the_script_says_so() -> None:
    slots = [{"calls": [{"shell": "ls"}], "again": "outcome unknown"}, {"text": "fine"}]
    with FakeModel(slots) as model:
        first = post(model, "messages", body("messages"))
        history = next_history("messages", first, ["outcome unknown: verify"])
        second = post(model, "messages", body("messages", history))
        assert said_whole("messages", second)[1] == said_whole("messages", first)[1]
        history += next_history("messages", second, ["a.txt"])
        assert said_whole("messages", post(model, "messages", body("messages", history)))[0] == "fine"


def test_fillers_are_not_replies() -> None:
    with FakeModel([{"text": "one"}, {"text": "two"}]) as model:
        filled = [{"role": "assistant", "content": "No response requested."}, {"role": "user", "content": "go on"}]
        assert said_whole("messages", post(model, "messages", body("messages", filled)))[0] == "one"


def test_the_kth_request_gets_the_kth_slot_and_the_end_is_done() -> None:
    with FakeModel([{"text": "one"}, {"text": "two"}], mode="requests") as model:
        assert [said_whole("chat", post(model, "chat", body("chat")))[0] for _ in range(3)] == ["one", "two", "done"]


def test_a_slot_may_fail_first() -> None:
    limit = {"status": 429, "headers": {"retry-after": "7"}, "body": {"error": {"message": "slow"}}}
    with FakeModel([[limit, {"status": 529}, {"text": "there"}]]) as model:
        assert refusal(model, "messages", body("messages"))[:2] == (429, {"error": {"message": "slow"}})
        status, error, _ = refusal(model, "messages", body("messages"))
        assert (status, error["error"]["type"]) == (529, "overloaded_error")
        assert said_whole("messages", post(model, "messages", body("messages")))[0] == "there"


def test_thinking_usage_and_stop_reasons_arrive() -> None:
    turn = {"thinking": "hm", "text": "x", "usage": {"input_tokens": 9, "output_tokens": 4}, "stop": "max_tokens"}
    with FakeModel([turn]) as model:
        answer = post(model, "messages", body("messages"))
        assert answer["content"][0]["thinking"] == "hm" and answer["content"][0]["signature"]
        assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (9, 4)
        assert answer["stop_reason"] == "max_tokens"
        response = post(model, "responses", body("responses", stream=True))[-1]["response"]
        assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", "max_tokens")
        assert response["usage"]["total_tokens"] == 13


@pytest.mark.parametrize("api", APIS)
def test_errors_inside_of_a_stream(api: str) -> None:
    error = {"type": "overloaded_error", "code": "server_is_overloaded", "message": "busy"}
    with FakeModel([{"text": "begun", "error": error}]) as model:
        last = post(model, api, body(api, stream=True))[-1]
        assert (last["response"] if api == "responses" else last)["error"]["message"] == "busy"
        assert refusal(model, api, body(api))[0] == 529


# ---------------------------------------------------------------- breaking


@pytest.mark.parametrize("where", ["before", "mid"])
@pytest.mark.parametrize("how", ["hang", "reset", "cut"])
def test_the_connection_breaks_where_the_script_says(how: str, where: str) -> None:
    with FakeModel([{"text": "a long story of four pieces", how: where, "hang_seconds": 0.2}]) as model:
        client = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
        try:
            client.request("POST", PATHS["messages"], json.dumps(body("messages", stream=True)))
            with pytest.raises((http.client.HTTPException, ConnectionError)) as caught:
                client.getresponse().read()
        finally:
            client.close()
        assert isinstance(caught.value, ConnectionResetError) == (how == "reset" or where == "before")
        partial = getattr(caught.value, "partial", b"")
        assert (b"message_start" in partial) == (where == "mid" and how != "reset")
        assert b"message_stop" not in partial


def test_closing_ends_a_hanging_answer() -> None:
    model = FakeModel([{"hang": "before"}]).start()
    failed = threading.Event()

    def ask() -> None:
        with pytest.raises((urllib.error.URLError, ConnectionError, http.client.HTTPException)):
            post(model, "chat", body("chat"))
        failed.set()

    thread = threading.Thread(target=ask)
    thread.start()
    model.wait_for(1)
    model.close()
    thread.join(60)
    assert failed.is_set()


def test_a_client_that_leaves_lets_the_answer_go() -> None:
    before = threading.active_count()
    with FakeModel([{"text": "x", "hang": "mid"}]) as model:
        client = http.client.HTTPConnection("127.0.0.1", model.port, timeout=60)
        client.request("POST", PATHS["chat"], json.dumps(body("chat", stream=True)))
        model.wait_for(1)
        client.close()
    assert threading.active_count() == before


# ---------------------------------------------------------------- side requests


def test_requests_without_tools_play_no_turn() -> None:
    schema = {"type": "json_schema", "schema": {"type": "object", "required": ["title"]}}
    with FakeModel(SHELL) as model:
        side = {**body("messages"), "tools": []}
        assert said_whole("messages", post(model, "messages", side)) == ("task", [])
        titled = post(model, "messages", {**side, "output_config": {"format": schema}})
        assert json.loads(said_whole("messages", titled)[0]) == {"title": "task"}
        assert post(model, "messages", side, "/v1/messages/count_tokens")["input_tokens"] > 0
        with urllib.request.urlopen(urllib.request.Request(model.url, method="HEAD"), timeout=60) as response:
            assert response.status == 200
        with urllib.request.urlopen(model.url + "/v1/models", timeout=60) as response:
            assert json.load(response)["data"] == []
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(model, "messages", side, "/v1/elsewhere")
        caught.value.close()
        assert model.requests() == []
        assert len(model.requests(sides=True)) == 6
    with FakeModel([{"text": "played"}], sides=False) as model:
        assert said_whole("messages", post(model, "messages", side))[0] == "played"


# ---------------------------------------------------------------- strict mode


def used(name: str = "t1", given: Any = None) -> dict[str, Any]:
    call = {"type": "tool_use", "id": name, "name": "Bash", "input": {} if given is None else given}
    return {"role": "assistant", "content": [call]}


def reported(*names: str) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in names]
    return {"role": "user", "content": results}


def called(name: str = "c1", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "exec_command", "arguments": arguments, **more}


def output(name: str = "c1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": "x"}


def asked(name: str = "c1", arguments: Any = "{}") -> dict[str, Any]:
    call = {"id": name, "type": "function", "function": {"name": "bash", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def answered(name: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "x"}


HELLO = {"role": "user", "content": "hello"}
BAD: list[tuple[str, list[Any], str]] = [
    ("messages", [used()], "without results"),
    ("messages", [used(), HELLO], "0 results"),
    ("messages", [used(), reported("t1", "t1")], "2 results"),
    ("messages", [used(), reported("t1", "t2")], "answers no call"),
    ("messages", [reported("t9")], "answers no call"),
    ("messages", [used(), reported("t1"), used(), reported("t1")], "used twice"),
    ("messages", [used("t 1"), reported("t 1")], "not of"),
    ("messages", [used("t" * 65), reported("t" * 65)], "not of"),
    ("messages", [used(given="ls"), reported("t1")], "not an object"),
    ("messages", [{"role": "assistant", "content": ""}], "empty text"),
    ("messages", [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}], "signature"),
    (
        "messages",
        [used(), {"role": "user", "content": [HELLO | {"type": "text", "text": "x"}, *reported("t1")["content"]]}],
        "after",
    ),
    ("responses", [called()], "0 results"),
    ("responses", [called(), HELLO, output()], "0 results"),
    ("responses", [called(), output(), output()], "2 results"),
    ("responses", [output("c9")], "answers no call"),
    ("responses", [called(), output(), called(), output()], "used twice"),
    ("responses", [called(arguments={}), output()], "not a string of JSON"),
    ("responses", [called(arguments="{"), output()], "not a string of JSON"),
    ("responses", [called(id="call_1"), output()], "does not begin"),
    ("responses", [{"role": "assistant", "content": [{"type": "output_text", "text": ""}]}], "empty text"),
    ("chat", [asked()], "0 results"),
    ("chat", [asked(), HELLO, answered()], "0 results"),
    ("chat", [asked(), answered("c2")], "0 results"),
    ("chat", [asked(arguments={}), answered()], "not a string of JSON"),
]


@pytest.mark.parametrize(("api", "history", "reason"), BAD)
def test_strict_mode_refuses_what_providers_refuse(api: str, history: list[Any], reason: str) -> None:
    with FakeModel(SHELL, strict=True) as model:
        status, error, _ = refusal(model, api, body(api, history))
        assert (status, error["error"]["type"]) == (400, "invalid_request_error")
        assert reason in error["error"]["message"]
        assert model.requests()[-1].problem
    with FakeModel([{"text": "fine"}]) as model:
        post(model, api, body(api, history))


@pytest.mark.parametrize(
    ("api", "history"),
    [
        ("messages", [used("a"), reported("a"), HELLO, used("b"), reported("b")]),
        (
            "messages",
            [{"role": "assistant", "content": used("a")["content"] + used("b")["content"]}, reported("b", "a")],
        ),
        ("messages", [{"role": "system", "content": "a reminder"}, used(), reported("t1")]),
        ("responses", [called("a"), called("b"), output("b"), output("a"), HELLO]),
        ("responses", [called(id="fc_1"), output(), {"type": "reasoning", "id": "rs_1", "summary": []}]),
        ("chat", [asked("a"), answered("a"), asked("b"), answered("b")]),
    ],
)
def test_strict_mode_accepts_what_is_right(api: str, history: list[Any]) -> None:
    with FakeModel([{"text": "fine"}] * 5, strict=True) as model:
        assert said_whole(api, post(model, api, body(api, history)))[0]


def test_strict_mode_wants_the_user_first() -> None:
    with FakeModel(strict=True) as model:
        for api in APIS:
            given = body(api)
            given["input" if api == "responses" else "messages"] = [{"role": "assistant", "content": "hi"}]
            assert "not the user's" in refusal(model, api, given)[1]["error"]["message"]


# ---------------------------------------------------------------- script, log, process


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([{"txt": "x"}], "unknown txt"),
        ([{"calls": [{"tool": "x"}]}], "a call is"),
        ([{"hang": "later"}], "before or mid"),
        ([[]], "empty list"),
        (["x"], "a turn is"),
        ({"mode": "odd", "slots": []}, "mode"),
    ],
)
def test_a_script_that_cannot_be_played_is_refused_with_the_reason(script: Any, reason: str) -> None:
    with pytest.raises(ScriptError, match=reason):
        FakeModel(script)


def test_the_log_is_on_disk_before_the_answer_and_holds_no_key(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with FakeModel([{"hang": "before", "hang_seconds": 0.1}], log=log) as model:
        with pytest.raises((urllib.error.URLError, ConnectionError, http.client.HTTPException)):
            post(model, "chat", body("chat"))
        [request] = read_log(log)
        assert request == model.requests()[0]
        assert (request.number, request.api, request.body["model"]) == (1, "chat", "m")
    assert "sk-secret" not in log.read_text()
    log.write_text(log.read_text() + '{"torn')
    assert len(read_log(log)) == 1


def test_as_a_process(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps([{"text": "hello"}]))
    command = [sys.executable, "-m", "tests.support.fake_model", "--script", str(script), "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        request = urllib.request.Request(url + PATHS["chat"], json.dumps(body("chat")).encode())
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.load(response)["choices"][0]["message"]["content"] == "hello"
        process.terminate()
        assert process.wait(60) == 0
    assert [one.slot for one in read_log(log)] == [0]
    script.write_text("[")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
