"""The models that an account in the environment offers at once, the one for a new chat first; and
when providers said that a model ends."""

from datetime import date
from decimal import Decimal

from .bedrock_history import CLAUDE, family_of

OPENAI_MODELS = {
    "gpt-6-sol": "GPT-6 Sol",
    "gpt-6-luna": "GPT-6 Luna",
    "gpt-6.1-sol": "GPT-6.1 Sol",
    "gpt-6.1-terra": "GPT-6.1 Terra",
    "gpt-6-astra": "GPT-6 Astra",
    "gpt-5.4-mini": "GPT-5.4 mini",
}
DEFAULT_MODELS: dict[str, dict[str, str]] = {
    "openai": OPENAI_MODELS,
    "openai-chat": OPENAI_MODELS,
    "anthropic": {
        "claude-sonnet-5-5": "Claude Sonnet 5.5",
        "claude-opus-5-5": "Claude Opus 5.5",
        "claude-haiku-5-5": "Claude Haiku 5.5",
        "claude-fable-5-2": "Claude Fable 5.2",
        "claude-mythos-5-2": "Claude Mythos 5.2",
    },
    "google": {
        "gemini-flash-latest": "Gemini Flash, latest",
        "gemini-pro-latest": "Gemini Pro, latest",
        "gemini-flash-lite-latest": "Gemini Flash-Lite, latest",
        "gemini-4-hydrogen": "Gemini 4 Hydrogen",
        "gemini-4-argon": "Gemini 4 Argon",
        "gemini-4-carbon": "Gemini 4 Carbon",
    },
    "bedrock": {
        "amazon.nova-pro-v1:0": "Amazon Nova Pro",
        "amazon.nova-lite-v1:0": "Amazon Nova Lite",
    },
}
# How many tokens of a request each reads at once, where its provider has published it. What others
# read shows when one of them refuses.
CONTEXT_TOKENS = {
    **dict.fromkeys(("gpt-6-sol", "gpt-6-luna", "gpt-6-astra"), 922_000),
    **dict.fromkeys(("gpt-6.1-sol", "gpt-6.1-terra"), 922_000),
    **dict.fromkeys(("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"), 1_000_000),
    "gemini-4-argon": 1_048_576,
    "amazon.nova-pro-v1:0": 300_000,
    "amazon.nova-lite-v1:0": 300_000,
}
# By the beginning of the name: a dated name ends with the one that it is a version of.
ENDS: dict[str, date] = {
    "claude-sonnet-4-5": date(2026, 11, 30),
    "gpt-5-mini": date(2026, 12, 11),
    "gpt-5-nano": date(2026, 12, 11),
    "gpt-5-2025": date(2026, 12, 11),
    "o3": date(2026, 12, 11),
    "gpt-4o": date(2027, 1, 14),
    "gpt-4.1": date(2027, 1, 14),
    "gpt-5.4-nano": date(2027, 4, 1),
    "gpt-5.1": date(2027, 4, 1),
}
ENDS_EXACTLY: dict[str, date] = {"gpt-5": date(2026, 12, 11)}

# What Anthropic asks for a token that it keeps for five minutes, as a share of one that it reads.
WRITTEN_BY_CLAUDE = Decimal("1.25")


def cache_write_share(kind: str, model: str) -> Decimal:
    """What a token costs that is written into the provider's cache, as a share of one read."""
    is_claude = kind == "anthropic" or (kind == "bedrock" and family_of(model) == CLAUDE)
    return WRITTEN_BY_CLAUDE if is_claude else Decimal(1)


def end_of(model: str) -> date | None:
    """When the provider stops to serve this model, as far as that is known here."""
    if model in ENDS_EXACTLY:
        return ENDS_EXACTLY[model]
    return next((end for name, end in ENDS.items() if model.startswith(name)), None)
