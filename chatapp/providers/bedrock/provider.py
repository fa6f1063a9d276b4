"""What is declared of Amazon Bedrock."""

import re
from decimal import Decimal

from chatapp.providers.anthropic import provider as anthropic
from chatapp.providers.anthropic.provider import CACHE_WRITE_SHARE, PROPERTY_NAMES
from chatapp.providers.provider import FileSupport, Provider, SigningVariables, Variables
from chatapp.providers.request import Effort
from chatapp.providers.tools.toolbox import Dialect
from chatapp.providers.tools.wire_names import NameRule

CLAUDE = "anthropic"
REGION_GROUPS = {"us", "us-gov", "eu", "apac", "global", "jp", "au", "ca"}
DIALECT = Dialect(
    label="Bedrock",
    names=NameRule(letters="a-zA-Z0-9_-", longest=64),
    properties=PROPERTY_NAMES,
)


def read_family(model: str) -> str:
    """Return the maker in the id of a model or a profile, or an empty text."""
    first, _, rest = model.rpartition("/")[2].partition(".")
    maker = rest.partition(".")[0] if first in REGION_GROUPS else first
    return maker if rest else ""


def cache_write_share(model: str) -> Decimal:
    return CACHE_WRITE_SHARE if read_family(model) == CLAUDE else Decimal(1)


def takes_temperature(model: str, effort: Effort) -> bool:
    return read_family(model) != CLAUDE or anthropic.takes_temperature(model, effort)


BEDROCK = Provider(
    kind="bedrock",
    label="Amazon Bedrock",
    module="chatapp.providers.bedrock.converse",
    dialect=DIALECT,
    embeddings="chatapp.providers.bedrock.embeddings",
    embedding_models=(
        "amazon.titan-embed-text-v2:0",
        "amazon.nova-2-multimodal-embeddings-v1:0",
        "cohere.embed-v4:0",
    ),
    variables=Variables(
        label="Amazon Bedrock",
        keys=("AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
        url="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        host="amazonaws.com",
        signing=SigningVariables(
            bearer="AWS_BEARER_TOKEN_BEDROCK",
            key_id="AWS_ACCESS_KEY_ID",
            session_token="AWS_SESSION_TOKEN",  # noqa: S106  the name of a variable
            regions=("AWS_REGION", "AWS_DEFAULT_REGION"),
        ),
    ),
    models={
        "amazon.nova-pro-v1:0": "Amazon Nova Pro",
        "amazon.nova-lite-v1:0": "Amazon Nova Lite",
    },
    context_tokens={"amazon.nova-pro-v1:0": 300_000, "amazon.nova-lite-v1:0": 300_000},
    files=FileSupport(
        without_pictures=re.compile(
            r"(?!.*(anthropic\.claude|amazon\.nova-(?!micro)|llama3-2-(11|90)b|llama4|pixtral))"
        ),
        with_pdf=re.compile(r".*(anthropic\.claude|amazon\.nova-(?!micro))"),
        picture_bytes=3_750_000,
        document_bytes=4_500_000,
    ),
    cache_write_share=cache_write_share,
    takes_temperature=takes_temperature,
    highest_temperature=1.0,
)
