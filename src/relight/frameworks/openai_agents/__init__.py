"""OpenAI Agents SDK adapter: a conversation is a relight session, an interrupted run a checkpoint of it.

with relight.open() as rl:
    result = await Runner.run(agent, "hello", session=RelightSession("user-42", rl))
"""

from __future__ import annotations

from relight.errors import MissingExtra

try:
    import agents as _sdk
except ImportError as error:
    if error.name is None or error.name.partition(".")[0] not in ("agents", "openai"):
        raise
    raise MissingExtra("openai-agents", needed_for="a session for the OpenAI Agents SDK") from None

from relight.frameworks.openai_agents.session import RelightSession

del _sdk
__all__ = ["RelightSession"]
