"""What is declared of OpenAI, for the Responses API and for Chat Completions."""

import re
from dataclasses import replace
from datetime import date

from chatapp.providers.provider import FileSupport, Provider, Variables
from chatapp.providers.request import Effort
from chatapp.providers.tools.toolbox import Dialect
from chatapp.providers.tools.wire_names import NameRule

DIALECT = Dialect(label="OpenAI", names=NameRule(letters="a-zA-Z0-9_-", longest=64), most_tools=128)

# Models that reason. Those of the older generations always do.
ALWAYS_REASONING = re.compile(r"(.*/)?(o[1-9]|gpt-5(-|$))")
REASONING = re.compile(r"(.*/)?(o[1-9]|gpt-[5-9])")


def takes_temperature(model: str, effort: Effort) -> bool:
    """Return whether the model takes a temperature: those that reason take none while they do."""
    if "-chat" in model:
        return True
    pattern = ALWAYS_REASONING if effort == "off" else REASONING
    return not pattern.match(model)


OPENAI = Provider(
    kind="openai",
    label="OpenAI",
    module="chatapp.providers.openai.responses",
    dialect=DIALECT,
    embeddings="chatapp.providers.openai.embeddings",
    embedding_models=("text-embedding-3-small", "text-embedding-3-large"),
    variables=Variables(
        label="OpenAI",
        keys=("OPENAI_API_KEY",),
        url="OPENAI_BASE_URL",
        host="api.openai.com",
        custom_headers="OPENAI_CUSTOM_HEADERS",
        named_headers={
            "OPENAI_ORG_ID": "OpenAI-Organization",
            "OPENAI_PROJECT_ID": "OpenAI-Project",
        },
        needs_key=False,
    ),
    models={
        "gpt-6-sol": "GPT-6 Sol",
        "gpt-6-luna": "GPT-6 Luna",
        "gpt-6.1-sol": "GPT-6.1 Sol",
        "gpt-6.1-terra": "GPT-6.1 Terra",
        "gpt-6-astra": "GPT-6 Astra",
        "gpt-5.4-mini": "GPT-5.4 mini",
    },
    context_tokens={
        **dict.fromkeys(("gpt-6-sol", "gpt-6-luna", "gpt-6-astra"), 922_000),
        **dict.fromkeys(("gpt-6.1-sol", "gpt-6.1-terra"), 922_000),
    },
    end_dates={
        "gpt-5-mini": date(2026, 12, 11),
        "gpt-5-nano": date(2026, 12, 11),
        "gpt-5-2025": date(2026, 12, 11),
        "o3": date(2026, 12, 11),
        "gpt-4o": date(2027, 1, 14),
        "gpt-4.1": date(2027, 1, 14),
        "gpt-5.4-nano": date(2027, 4, 1),
        "gpt-5.1": date(2027, 4, 1),
    },
    exact_end_dates={"gpt-5": date(2026, 12, 11)},
    takes_temperature=takes_temperature,
    files=FileSupport(
        without_pictures=re.compile(
            r"gpt-3\.5|gpt-4(-0|-\d{4}|$)|o1-(mini|preview)|o3-mini|gpt-oss"
        ),
        with_pdf=re.compile(r"(?!o1-|o3-mini|gpt-4-)(gpt-4o|gpt-4\.1|gpt-[5-9]|o[1-9])"),
    ),
)

OPENAI_CHAT = replace(
    OPENAI,
    kind="openai-chat",
    label="OpenAI-compatible (Chat Completions)",
    module="chatapp.providers.openai.chat",
    embedding_models=("nomic-embed-text", "bge-m3", "qwen3-embedding"),
    is_for_own_servers=True,
)
