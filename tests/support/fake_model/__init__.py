"""A fake model server: real HTTP on 127.0.0.1, a script instead of a model, a log of every request.

It speaks Anthropic Messages, OpenAI Responses, Chat Completions and Gemini well enough for real coding agents and
SDKs, so that an agent can be run, killed and resumed offline, and what it remembers can be asserted on the log: the
last request is what the resumed agent really knows.

    with FakeModel(script=[{"calls": [{"shell": "echo hi"}]}, {"text": "done"}]) as model:
        ...  # run an agent with ANTHROPIC_BASE_URL=model.url
        assert unpaired(model.requests()[-1].items) == []

It needs nothing but the standard library. It does not think, count tokens rightly, or check keys.
"""

from tests.support.fake_model.conversation import Item, pairs, read, texts, turns, unpaired
from tests.support.fake_model.record import Request, read_log
from tests.support.fake_model.script import Script, ScriptError, Turn
from tests.support.fake_model.server import FakeModel

__all__ = [
    "FakeModel",
    "Item",
    "Request",
    "Script",
    "ScriptError",
    "Turn",
    "pairs",
    "read",
    "read_log",
    "texts",
    "turns",
    "unpaired",
]
