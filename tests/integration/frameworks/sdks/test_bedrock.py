"""Bedrock's Converse, by the rules that botocore itself checks a request with."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.validate import validate_parameters

import relight
from relight.journal.provider_errors import is_transient
from tests.support.simulation import Simulation

USAGE = {"inputTokens": 10, "outputTokens": 7, "totalTokens": 17}


def reply(*content: Any, stop: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": list(content)}
    return {"output": {"message": message}, "stopReason": stop, "usage": USAGE, "metrics": {"latencyMs": 1}}


def test_what_is_sent_back_is_a_valid_request_also_after_a_kill() -> None:
    shape = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    world, ran = Simulation(), []
    uses = [{"toolUse": {"toolUseId": f"t{n}", "name": "look", "input": {"city": "Oslo"}}} for n in range(3)]
    replies = [
        reply({"text": "I look."}, *uses, stop="tool_use"),
        reply(stop="end_turn"),
        reply({"text": "Bye."}, stop="end_turn"),
    ]

    def model(messages: list[dict[str, Any]]) -> Any:
        validate_parameters({"modelId": "m", "messages": messages}, shape)
        return replies[sum(one["role"] == "assistant" for one in messages)]

    def look(city: str) -> Any:
        ran.append(city)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return "" if len(ran) == 1 else {"weather": "fine"}

    tools = [relight.tool(effect="idempotent")(look)]
    for number, prompt in enumerate(("go", "go", "bye")):
        try:
            with world.restart().session("a", provider="bedrock-converse") as s:
                result = s.run(model, tools=tools, prompt=prompt, parallel=1)
        except KeyboardInterrupt:
            assert number == 0
    assert (result, len(ran)) == ("Bye.", 4)


def test_a_stream_is_the_message_that_was_streamed() -> None:
    def block(at: int, *deltas: Any, **start: Any) -> list[dict[str, Any]]:
        begun = [{"contentBlockStart": {"contentBlockIndex": at, "start": start}}] if start else []
        pieces = [{"contentBlockDelta": {"contentBlockIndex": at, "delta": delta}} for delta in deltas]
        return [*begun, *pieces, {"contentBlockStop": {"contentBlockIndex": at}}]

    use = {"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use"}
    found = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "success"}
    events = [
        {"messageStart": {"role": "assistant"}},
        *block(0, {"reasoningContent": {"redactedContent": "eHg="}}),
        *block(1, {"toolUse": {"input": '{"q": "x"}'}}, toolUse=use),
        *block(2, {"toolResult": [{"text": "a"}]}, {"toolResult": [{"json": {"b": 1}}]}, toolResult=found),
        *block(3, {"text": "Ada was "}, {"text": "born"}, {"citation": {"title": "t"}}),
        *block(4, {"audio": {"text": "of a later version"}}),
        {"messageStop": {"stopReason": "end_turn"}},
    ]
    shape = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    with Simulation().start().session("a", provider="bedrock-converse") as s:
        assert s.run(lambda asked: iter(events), prompt="go") == "Ada was born"
        validate_parameters({"modelId": "m", "messages": s.messages}, shape)
        assert s.messages[1]["content"] == [
            {"reasoningContent": {"redactedContent": "eHg="}},
            {"toolUse": {**use, "input": {"q": "x"}}},
            {"toolResult": {**found, "content": [{"text": "a"}, {"json": {"b": 1}}]}},
            {"text": "Ada was born"},
        ]


def failed(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Converse")


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (failed("ThrottlingException", 429), True),
        (failed("ModelErrorException", 424), False),
        (failed("AccessDeniedException", 403), False),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1"), True),
        (ReadTimeoutError(endpoint_url="http://127.0.0.1"), True),
    ],
)
def test_what_botocore_raises_is_judged(error: Exception, passes: bool) -> None:
    assert is_transient(error) is passes
