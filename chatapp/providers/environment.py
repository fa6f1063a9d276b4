"""Accounts from the environment, under the names that the providers' own SDKs use for them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from chatapp.providers.account import Account
from chatapp.providers.events import ErrorKind, ProviderError
from chatapp.providers.failures import ProviderNames, missing_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """What one provider's account is read from; of `keys` the first that is set counts.

    `host` is the provider's own: headers that an operator set for the provider itself go to it and
    the names below it, and to no server that `url` may lead to.
    """

    label: str
    keys: tuple[str, ...]
    url: str
    host: str
    custom_headers: str = ""
    named_headers: Mapping[str, str] = field(default_factory=dict)
    needs_key: bool = True


OPENAI = Variables(
    label="OpenAI",
    keys=("OPENAI_API_KEY",),
    url="OPENAI_BASE_URL",
    host="api.openai.com",
    custom_headers="OPENAI_CUSTOM_HEADERS",
    named_headers={"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"},
    needs_key=False,
)
ANTHROPIC = Variables(
    label="Anthropic",
    keys=("ANTHROPIC_API_KEY",),
    url="ANTHROPIC_BASE_URL",
    host="api.anthropic.com",
    custom_headers="ANTHROPIC_CUSTOM_HEADERS",
)
GOOGLE = Variables(
    label="Google",
    keys=("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    url="GOOGLE_GEMINI_BASE_URL",
    host="generativelanguage.googleapis.com",
)
BEDROCK = Variables(
    label="Amazon Bedrock",
    keys=("AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
    url="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    host="amazonaws.com",
)
VARIABLES = {
    "openai": OPENAI,
    "openai-chat": OPENAI,
    "anthropic": ANTHROPIC,
    "google": GOOGLE,
    "bedrock": BEDROCK,
}
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
# What requests to an endpoint of one's own are signed for when nobody said.
SIGNED_REGION = "us-east-1"


def is_set(kind: str) -> bool:
    """Whether the environment has an account. A server of one's own may need no key."""
    variables = VARIABLES[kind]
    return bool(_key(variables)) or bool(not variables.needs_key and _first(variables.url))


def has_own_address(kind: str) -> bool:
    return bool(_first(VARIABLES[kind].url))


def account(kind: str) -> Account:
    """The account as the environment says now, checked; a ProviderError says what is missing."""
    variables = VARIABLES[kind]
    base_url, key = _first(variables.url), _key(variables)
    check_address(base_url, variables.url)
    host = urlsplit(base_url).hostname or ""
    names = ProviderNames(
        label=_label(variables, host),
        key_variable=" or ".join(variables.keys),
        url_variable=variables.url,
    )
    if not is_set(kind):
        raise missing_key(names)
    check_key(key, names.key_variable)
    found = Account(names=names, base_url=base_url, key=key, is_from_environment=True)
    return _of_amazon(found) if kind == "bedrock" else _with_headers(found, variables)


def check_address(base_url: str, name: str) -> None:
    """Raise ProviderError for what is no web address; empty is the provider's own. Paths are added
    behind it, which nothing that follows a path survives."""
    if base_url and not _is_address(base_url):
        raise _misconfigured("bad_request", f"{name} is not an http or https address.")
    if "?" in base_url or "#" in base_url:
        sentence = (
            f"{name} has a “?” or a “#”: leave it out, with what follows. "
            "One at Azure ends in /openai/v1 and needs no api-version."
        )
        raise _misconfigured("bad_request", sentence)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and text.isprintable()


def check_key(key: str, name: str) -> None:
    if not (key.isascii() and (key.isprintable() or not key)):
        raise _misconfigured("auth", f"{name} holds characters that no key has.")


def is_own_host(variables: Variables, host: str) -> bool:
    return not host or host == variables.host or host.endswith(f".{variables.host}")


def _of_amazon(found: Account) -> Account:
    """A bearer token stands for itself, as it does in the SDK; keys have an id, and both a
    region."""
    region = _first(*REGIONS) or (SIGNED_REGION if found.base_url else "")
    if not region:
        raise _misconfigured("auth", "AWS_REGION does not say which region of Bedrock to ask.")
    if _first("AWS_BEARER_TOKEN_BEDROCK"):
        return replace(found, region=region)
    return replace(
        found,
        region=region,
        key_id=_first("AWS_ACCESS_KEY_ID"),
        session_token=_first("AWS_SESSION_TOKEN"),
    )


def _with_headers(found: Account, variables: Variables) -> Account:
    if not is_own_host(variables, found.host):
        return found
    lines = _first(variables.custom_headers).split("\n") if variables.custom_headers else []
    parted = [line.partition(":") for line in lines]
    headers = {name.strip(): value.strip() for name, colon, value in parted if colon}
    named = {header: _first(name) for name, header in variables.named_headers.items()}
    headers |= {header: value for header, value in named.items() if value}
    return replace(found, headers=tuple(headers.items()))


def _label(variables: Variables, host: str) -> str:
    own = is_own_host(variables, host)
    return variables.label if own else f"the model server at {host}"


def _key(variables: Variables) -> str:
    """A secret of Amazon's without the id beside it is half a key."""
    if variables is BEDROCK and not _first("AWS_ACCESS_KEY_ID"):
        return _first("AWS_BEARER_TOKEN_BEDROCK")
    return _first(*variables.keys)


def _first(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _misconfigured(kind: ErrorKind, message: str) -> ProviderError:
    return ProviderError(kind=kind, message=message, hint="An admin can correct it.")
