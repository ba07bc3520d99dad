"""`relight.testing`: a store for each test, a scripted model, and deaths everywhere in one's own agent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.testing import Effects, ScriptedModel, crash_everywhere
from relight.testing.scripted_model import FormName

FORMS: list[FormName] = ["anthropic", "openai", "openai_responses"]
SCRIPT: list[Any] = [["I tell both.", {"send_mail": {"to": "ada"}}, {"send_mail": {"to": "bob"}}], "Done."]


class Mailer:
    """An agent of the tests: it sends two mails, and may make mistakes."""

    def __init__(self, effects: Effects, form: FormName = "anthropic") -> None:
        self.model = ScriptedModel(SCRIPT, form=form)
        self.effects = effects
        self.tools = {"send_mail": self.send_mail}

    def send_mail(self, to: str) -> str:
        self.effects.add(f"mail to {to}")
        return "sent"

    def run(self, before: Callable[[relight.Session], Any] = lambda s: None) -> Any:
        with relight.session("tell-both") as s:
            before(s)
            return s.run(self.model, tools=self.tools, prompt="Tell both")

    async def run_async(self) -> Any:
        async with relight.aio.open() as rl, await rl.session("tell-both") as s:
            return await s.run(self.model, tools=self.tools, prompt="Tell both")


# -- the store --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["first", "second"])
def test_relight_store_is_empty_and_the_default_one(relight_store: relight.Relight, test: str) -> None:
    assert list(relight_store.sessions.list()) == []
    with relight.session("mine") as s:
        s.complete(test)
    assert [info.name for info in relight_store.sessions.list()] == ["mine"]
    assert os.environ["RELIGHT_STORE"] in relight_store.store.url


def test_the_kits_need_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import relight.testing.store_kit, relight.testing.crashes"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


# -- the scripted model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_scripted_model_answers_in_its_providers_form(
    relight_store: relight.Relight, relight_effects: Effects, form: FormName
) -> None:
    mailer = Mailer(relight_effects, form)
    assert mailer.run() == "Done."
    assert relight_effects.counts() == {"mail to ada": 1, "mail to bob": 1}
    assert mailer.model.calls == 2
    assert len(mailer.model.conversations[0]) == 1
    usage = relight_store.sessions.get("tell-both").usage
    assert (usage.input_tokens, usage.output_tokens) == (20, 10)


def test_a_scripted_model_goes_on_where_the_conversation_is(relight_store: relight.Relight) -> None:
    first = ScriptedModel([{"look": {}}, "Done."])
    with relight_store.session("s") as s:
        s.append({"role": "user", "content": "go"})
        reply = first(s.messages)
        s.append(reply.messages, usage=reply.usage) if isinstance(reply.messages, dict) else None
    with relight_store.session("s") as s:
        assert s.run(ScriptedModel([{"look": {}}, "Done."]), tools={"look": lambda: "seen"}) == "Done."


def test_a_scripted_error_is_raised_once(relight_store: relight.Relight) -> None:
    model = ScriptedModel([ConnectionError("reset"), "Done."])
    with relight_store.session("s") as s:
        retry = relight.Retry(first_seconds=0.001)
        assert s.run(model, prompt="go", retry=retry) == "Done."
    assert model.calls == 2


def test_a_scripted_model_refuses_what_a_provider_would() -> None:
    with pytest.raises(UsageError, match="a scripted reply is a text"):
        ScriptedModel([{"look": "here"}])
    model = ScriptedModel(["Done."])
    asked = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
    with pytest.raises(AssertionError, match="no result yet for 'c1'"):
        model([{"role": "user", "content": "go"}, asked])
    with pytest.raises(AssertionError, match="the script has 1 replies"):
        model(
            [{"role": "user", "content": "go"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
        )


# -- deaths everywhere --------------------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("way", ["run", "run_async"])
def test_crash_everywhere_passes_a_right_agent(relight_effects: Effects, way: str, sample: Any) -> None:
    agent = getattr(Mailer(relight_effects), way)
    deaths = sample(5, proof=500)
    report = crash_everywhere(agent, effects=relight_effects, max_deaths=deaths, seconds=300)
    assert report.deaths == min(deaths, report.possible)
    assert report.possible > 50
    assert f"{report.deaths} deaths of {report.possible} possible" in str(report)
    assert deaths < report.possible or report.unknown > 3, "a death between intent and outcome is told"


@pytest.mark.crash
def test_crash_everywhere_counts_an_effect_that_may_run_again_once_a_key(relight_effects: Effects) -> None:
    @relight.tool(effect="idempotent")
    def charge(amount: int, idempotency_key: str) -> str:
        relight_effects.add(f"charged {amount}", key=idempotency_key)
        return "charged"

    def agent() -> None:
        with relight.session("pay") as s:
            script = [[{"charge": {"amount": 5}}, {"charge": {"amount": 5}}], "Paid."]
            s.run(ScriptedModel(script), tools=[charge], prompt="Pay")

    crash_everywhere(agent, effects=relight_effects, max_deaths=12, seconds=300)
    relight_effects.clear()
    for key in ("a", "a", "b", None, None):
        relight_effects.add("x", key=key)
    assert relight_effects.counts() == {"x": 4}


@pytest.mark.crash
def test_crash_everywhere_finds_an_effect_outside_of_relight(relight_effects: Effects) -> None:
    mailer = Mailer(relight_effects)
    with pytest.raises(AssertionError, match="'outside' happened 2 times, undisturbed 1 times") as found:
        crash_everywhere(lambda: mailer.run(lambda s: relight_effects.add("outside")), effects=relight_effects)
    assert "killed at commit.enter, pass " in str(found.value)
    assert "deaths tried" in str(found.value)


@pytest.mark.crash
def test_crash_everywhere_finds_what_a_restart_forgets(relight_effects: Effects) -> None:
    mailer = Mailer(relight_effects)

    def count_lives(s: relight.Session) -> None:
        s.state["lives"] = s.attempt

    with pytest.raises(AssertionError, match=r"tell-both\.state\.lives: 2, undisturbed 1"):
        crash_everywhere(lambda: mailer.run(count_lives), max_deaths=2)
    report = crash_everywhere(lambda: mailer.run(count_lives), max_deaths=2, ignore=["tell-both.state.lives"])
    assert report.deaths == 2


@pytest.mark.crash
def test_crash_everywhere_shows_the_error_of_a_restart(relight_effects: Effects) -> None:
    mailer = Mailer(relight_effects)

    def refuse_to_continue(s: relight.Session) -> None:
        assert s.attempt == 1, "never restarted"

    with pytest.raises(
        AssertionError, match=r"(?s)it ended with AssertionError, undisturbed with no exc.*never restarted"
    ):
        crash_everywhere(lambda: mailer.run(refuse_to_continue), max_deaths=2)


@pytest.mark.crash
def test_crash_everywhere_says_what_cannot_be_compared(relight_effects: Effects) -> None:
    with pytest.raises(AssertionError, match="two runs without any death differ"):
        crash_everywhere(os.getpid)
    with pytest.raises(AssertionError, match=r"(?s)the agent fails without any death: ZeroDivisionError.*1 / 0"):
        crash_everywhere(lambda: 1 / 0)
    with pytest.raises(AssertionError, match="did not end in 0 s"):
        crash_everywhere(lambda: asyncio.run(asyncio.sleep(60)), life_seconds=0.2)


@pytest.mark.crash
@pytest.mark.parametrize("where", ["nowhere", "memory", "handle"])
def test_crash_everywhere_refuses_an_agent_whose_sessions_it_cannot_see(
    relight_store: relight.Relight, where: str
) -> None:
    def agent() -> None:
        if where == "memory":
            relight.session("elsewhere", store="memory:").close()
        elif where == "handle":
            relight_store.session("elsewhere", resume=False).close()

    with pytest.raises(AssertionError, match="began no session in the default store"):
        crash_everywhere(agent, max_deaths=2)


@pytest.mark.crash
def test_crash_everywhere_tries_one_death_however_slow_the_machine_is(relight_store: relight.Relight) -> None:
    assert crash_everywhere(lambda: relight.session("a").close(), seconds=0).deaths == 1


@pytest.mark.crash
def test_crash_everywhere_leaves_a_doubt_to_a_person(relight_effects: Effects) -> None:
    def agent() -> Any:
        with relight.open() as rl, rl.session("pays") as s:
            s.once("pay", lambda: relight_effects.add("paid"))
            s.complete("paid")

    report = crash_everywhere(agent, effects=relight_effects, max_deaths=6)
    assert report.in_doubt >= 1
