"""A program on the real Claude Agent SDK: `assistant.py STORE DIRECTORY PROMPT [OPTIONS as JSON]`.

Its session store is ours, and every message it hears is one line of output. The environment of the agent is its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

import relight
from relight.frameworks.claude_agent_sdk import RelightSessionStore


async def main(store: str, directory: str, prompt: str, options: str = "{}") -> None:
    with relight.open(store) as rl:
        sessions = RelightSessionStore(rl, workspace=directory)
        asked = ClaudeAgentOptions(
            session_store=sessions,
            session_store_flush="eager",
            hooks=sessions.hooks(),
            cwd=directory,
            env={name: os.environ[name] for name in os.environ if name != "PATH"},
            permission_mode="bypassPermissions",
            **json.loads(options),
        )
        async for message in query(prompt=prompt, options=asked):
            if isinstance(message, ResultMessage):
                print(json.dumps({"session": message.session_id, "result": message.result}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
