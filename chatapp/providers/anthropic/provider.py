"""What is declared of Anthropic."""

import re
from datetime import date
from decimal import Decimal

from chatapp.providers.provider import FileSupport, Provider, Variables
from chatapp.providers.request import Effort
from chatapp.providers.tools.toolbox import Dialect
from chatapp.providers.tools.wire_names import NameRule

# The price of a token that is kept for five minutes, as a share of one that is read.
CACHE_WRITE_SHARE = Decimal("1.25")
PROPERTY_NAMES = NameRule(letters="a-zA-Z0-9_.-", longest=64)
# The older models of Claude. The others choose their own temperature.
WITH_TEMPERATURE = re.compile(
    r"claude-(instant|[23]\b|(opus|sonnet|haiku)-4(-[0-6](?!\d)|-\d{8}|[@:]|$))"
)


def takes_temperature(model: str, effort: Effort) -> bool:
    """Return whether this model takes a temperature: older ones of Claude, while they do not
    think. A compatible server can have other models."""
    if effort not in ("", "off"):
        return False
    return "claude-" not in model or WITH_TEMPERATURE.search(model) is not None


DIALECT = Dialect(
    label="Anthropic",
    names=NameRule(letters="a-zA-Z0-9_-", longest=128),
    properties=PROPERTY_NAMES,
)

ANTHROPIC = Provider(
    kind="anthropic",
    label="Anthropic",
    module="chatapp.providers.anthropic.messages",
    dialect=DIALECT,
    variables=Variables(
        label="Anthropic",
        keys=("ANTHROPIC_API_KEY",),
        url="ANTHROPIC_BASE_URL",
        host="api.anthropic.com",
        custom_headers="ANTHROPIC_CUSTOM_HEADERS",
    ),
    models={
        "claude-sonnet-5-5": "Claude Sonnet 5.5",
        "claude-opus-5-5": "Claude Opus 5.5",
        "claude-haiku-5-5": "Claude Haiku 5.5",
        "claude-fable-5-2": "Claude Fable 5.2",
        "claude-mythos-5-2": "Claude Mythos 5.2",
    },
    context_tokens=dict.fromkeys(
        ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"), 1_000_000
    ),
    end_dates={"claude-sonnet-4-5": date(2026, 11, 30)},
    # A picture may have 5 MB in base64.
    files=FileSupport(with_pdf=re.compile(r""), picture_bytes=3_932_160),
    cache_write_share=lambda model: CACHE_WRITE_SHARE,
    takes_temperature=takes_temperature,
    highest_temperature=1.0,
)
