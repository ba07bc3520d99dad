"""A model of the price table is known by the names that gateways and clouds give it; a similar name is not."""

from __future__ import annotations

import pytest

from relight.journal.prices import TABLE, Price, price_of

SPELLINGS = {
    "claude-sonnet-4-5": """
        claude-sonnet-4-5-20250929 claude-sonnet-4-5[1m] claude-sonnet-4-5-20250929[1M]
        anthropic/claude-sonnet-4.5 anthropic/claude-4.5-sonnet-20250929 Anthropic/Claude-Sonnet-4.5
        openrouter/anthropic/claude-sonnet-4.5 vercel/anthropic/claude-sonnet-4.5 anthropic:claude-sonnet-4-5
        us.anthropic.claude-sonnet-4-5-20250929-v1:0 anthropic.claude-sonnet-4-5-20250929-v1:0
        global.anthropic.claude-sonnet-4-5-20250929-v1:0 us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0
        us.anthropic.claude-sonnet-4-5-20250929-v1:0[1m] bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0
        bedrock/us-west-2/anthropic.claude-sonnet-4-5-20250929-v1:0
        bedrock/converse/jp.anthropic.claude-sonnet-4-5-20250929-v1:0
        arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0
        arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0
        claude-sonnet-4-5@20250929 vertex_ai/claude-sonnet-4-5@20250929 google-vertex:claude-sonnet-4-5@default
        projects/p/locations/us-east5/publishers/anthropic/models/claude-sonnet-4-5@20250929
        azure_ai/claude-sonnet-4-5
    """,
    "claude-opus-4-6": "anthropic.claude-opus-4-6-v1 eu.anthropic.claude-opus-4-6-v1",
    "claude-sonnet-4-6": "us.anthropic.claude-sonnet-4-6 claude-sonnet-4-6@default anthropic/claude-4.6-sonnet",
    "gpt-5-mini": """
        gpt-5-mini-2025-08-07 openai/gpt-5-mini openai/gpt-5-mini-2025-08-07 openrouter/openai/gpt-5-mini
        azure/gpt-5-mini openai:gpt-5-mini openai-responses:gpt-5-mini gateway/openai:gpt-5-mini
    """,
    "gpt-5.4": "openai/gpt-5.4 azure/gpt-5.4-2026-03-05",
}
OTHERS = """
    anthropic/claude-sonnet-4.5:free openai/gpt-5-mini:online us.anthropic.claude-sonnet-4-5-20250929-v1:0:200k
    ft:gpt-5-mini:acme::abc openai/ft:gpt-5-mini-2025-08-07:acme::abc acme/gpt-5-mini-tuned acme/gpt-5-mini
    notanthropic/claude-opus-5 xanthropic.claude-opus-5 claude-sonnet-4 anthropic/claude-opus-4
    anthropic.claude-sonnet-4-20250514-v1:0 claude-3-5-sonnet-v2@20241022 openai/gpt-5 gpt-5-4 gpt-5.4-pro openai/
    arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123
"""


@pytest.mark.parametrize(
    ("spelling", "model"), [(one, model) for model in SPELLINGS for one in SPELLINGS[model].split()]
)
def test_another_spelling_of_a_known_model_has_its_price(spelling: str, model: str) -> None:
    assert price_of(spelling, {}) is TABLE[model]


@pytest.mark.parametrize("name", OTHERS.split())
def test_a_name_that_is_only_similar_has_no_price(name: str) -> None:
    assert price_of(name, {}) is None


def test_prices_of_ones_own_are_found_by_the_whole_name_first_and_by_each_spelling() -> None:
    gateway, region, old = (Price(input=one, output=one, cache_read=one, cache_write=one) for one in (1.0, 2.0, 3.0))
    own = {"openai/gpt-5-mini": gateway, "us.anthropic.claude-opus-4-6-v1": region, "claude-3-7-sonnet": old}
    assert price_of("openai/gpt-5-mini-2025-08-07", own) is gateway
    assert price_of("gpt-5-mini", own) is TABLE["gpt-5-mini"]
    assert price_of("us.anthropic.claude-opus-4-6-v1[1m]", own) is region
    assert price_of("eu.anthropic.claude-opus-4-6-v1", own) is TABLE["claude-opus-4-6"]
    assert price_of("anthropic/claude-3.7-sonnet", own) is old
