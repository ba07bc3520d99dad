"""A clerk who pays with a tool that needs an approval: an agent of the OpenAI Agents SDK with a scripted model.

As a program it reads `ACT STORE PAID` by lines and does each in a process of its own, a fork, because importing the SDK
takes seconds: `ask` runs until the approval is asked for, saves the run and is killed; `go` takes it up and ends it;
`die` takes it up, approves, and is killed inside the tool. It answers with the wait status of each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import relight
from relight.frameworks.openai_agents import RelightSession

NAME = "till-7"
ASKS = [function_call("look", "{}", call_id="c0")], [function_call("pay", '{"amount": 3}', call_id="c1")]
ENDS = [assistant_message("All paid.")]


def clerk(paid: Path, *replies: Any, dies: bool = False) -> Agent[Any]:
    @function_tool
    def look() -> str:
        return "one bill of 3"

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        with paid.open("a") as file:
            file.write(f"{amount}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {amount}"

    return Agent(name="clerk", model=ScriptedModel(list(replies)), tools=[look, pay])


async def play(act: str, store: str, paid: Path) -> None:
    set_tracing_disabled(True)
    rl = relight.open(store)
    session = RelightSession(NAME, rl)
    if act == "ask":
        result = await Runner.run(clerk(paid, *ASKS), "pay the bill", session=session)
        await session.save_run_state(result)
        os.kill(os.getpid(), signal.SIGKILL)
    agent = clerk(paid, ENDS, dies=act == "die")
    state = await session.load_run_state(agent)
    assert state is not None
    if act == "die":
        for item in state.get_interruptions():
            state.approve(item)
    await session.save_run_state(state)
    result = await Runner.run(agent, state, session=session)
    assert result.final_output == "All paid."
    rl.close()


def main() -> None:
    for line in sys.stdin:
        act, store, paid = line.split()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                asyncio.run(play(act, store, Path(paid)))
                status = 0
            finally:
                os._exit(status)
        print(os.waitpid(pid, 0)[1], flush=True)


if __name__ == "__main__":
    main()
