"""Accounts from the environment, in the same variables that the SDKs read."""

import os
from dataclasses import replace
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from .account import Account, ProviderNames
from .events import ErrorKind, ProviderError
from .failures import missing_key_error
from .provider import SigningVariables, Variables
from .registry import PROVIDERS

VARIABLES: dict[str, Variables] = {
    kind: provider.variables for kind, provider in PROVIDERS.items() if provider.variables
}
# The region in the signature of a request to another endpoint, where no variable has one.
SIGNED_REGION = "us-east-1"
NO_ACCOUNT = Account(
    names=ProviderNames(label="the demo", key_variable="DEMO", url_variable="DEMO")
)


def is_set(kind: str) -> bool:
    """Whether the environment has an account. A server of one's own may need no key."""
    variables = VARIABLES[kind]
    return bool(_read_key(variables)) or bool(not variables.needs_key and _read(variables.url))


def is_compatible_server(kind: str) -> bool:
    """Whether the address of this account is that of another server with the same API.

    It has models of its own, and none of the provider's.
    """
    variables = VARIABLES[kind]
    base_url = _read(variables.url)
    has_compatible = any(PROVIDERS[each].is_for_own_servers for each in kinds_of_account(kind))
    return (
        has_compatible
        and _is_address(base_url)
        and not is_own_host(variables, urlsplit(base_url).hostname or "")
    )


def is_offered(kind: str) -> bool:
    """Whether the models of the environment's account are in the list."""
    if PROVIDERS[kind].is_for_own_servers:
        return is_compatible_server(kind)
    return is_set(kind) and not is_compatible_server(kind)


def kinds_of_account(kind: str) -> tuple[str, ...]:
    """Return the kinds that use the same account as this one, itself included."""
    variables = VARIABLES.get(kind)
    if variables is None:
        return (kind,)
    return tuple(each for each, others in VARIABLES.items() if others == variables)


def find_account(model_id: str) -> Account:
    """Return the account for this model id, or raise ProviderError if it cannot be used.

    Whether the provider has the model is not checked.
    """
    kind, _colon, model = model_id.partition(":")
    if not model_id:
        raise ProviderError(
            kind="not_found",
            message=_("No model is set up yet."),
            hint=_(
                "Ask an admin to add a provider. Or set a key, such as OPENAI_API_KEY, or "
                "DEMO=1 for the demo assistant."
            ),
        )
    if kind not in PROVIDERS or not model or (kind == "demo" and not settings.DEMO):
        raise unknown_model_error(model_id)
    return read_account(kind) if kind in VARIABLES else NO_ACCOUNT


def unknown_model_error(model_id: str) -> ProviderError:
    return ProviderError(
        kind="not_found",
        message=_("There is no model “%(model)s” here.") % {"model": model_id},
        hint=_("Model names begin with one of: %(kinds)s")
        % {"kinds": ", ".join(f"{kind}:" for kind in PROVIDERS)},
    )


def read_account(kind: str) -> Account:
    """Read and check the account of this kind. Raise ProviderError for what is missing."""
    variables = VARIABLES[kind]
    base_url, key = _read(variables.url), _read_key(variables)
    check_address(base_url, variables.url)
    host = urlsplit(base_url).hostname or ""
    label = (
        variables.label
        if is_own_host(variables, host)
        else _("the model server (%(host)s)") % {"host": host}
    )
    key_variable = _(" or ").join(variables.keys)
    names = ProviderNames(label=label, key_variable=key_variable, url_variable=variables.url)
    if not is_set(kind):
        raise missing_key_error(names)
    check_key(key, key_variable)
    account = Account(names=names, base_url=base_url, key=key, is_from_environment=True)
    if variables.signing:
        return _add_signing(account, variables.signing)
    return _add_headers(account, variables)


def check_address(base_url: str, name: str) -> None:
    """Raise ProviderError for text that is no web address. Empty is the provider's own address.

    Paths are added at the end, so that a query or a fragment would break the address.
    """
    if base_url and not _is_address(base_url):
        raise _misconfigured(
            "bad_request", _("%(variable)s is not an http or https address.") % {"variable": name}
        )
    if "?" in base_url or "#" in base_url:
        sentence = _(
            "%(variable)s has a “?” or a “#”. Remove it and what follows. An address at "
            "Azure ends in /openai/v1 and needs no api-version."
        ) % {"variable": name}
        raise _misconfigured("bad_request", sentence)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and text.isprintable()


def check_key(key: str, name: str) -> None:
    if not (key.isascii() and (key.isprintable() or not key)):
        raise _misconfigured(
            "auth", _("%(variable)s has characters that a key can’t have.") % {"variable": name}
        )


def is_own_host(variables: Variables, host: str) -> bool:
    return not host or host == variables.host or host.endswith(f".{variables.host}")


def _add_signing(account: Account, signing: SigningVariables) -> Account:
    region = _read(*signing.regions) or (SIGNED_REGION if account.base_url else "")
    if not region:
        raise _misconfigured(
            "auth", _("AWS_REGION is not set, so the region of Bedrock is unknown.")
        )
    if _read(signing.bearer):
        return replace(account, region=region)
    return replace(
        account,
        region=region,
        key_id=_read(signing.key_id),
        session_token=_read(signing.session_token),
    )


def _add_headers(account: Account, variables: Variables) -> Account:
    if not is_own_host(variables, account.host):
        return account
    lines = _read(variables.custom_headers).split("\n") if variables.custom_headers else []
    parted = [line.partition(":") for line in lines]
    headers = {name.strip(): value.strip() for name, colon, value in parted if colon}
    named = {header: _read(name) for name, header in variables.named_headers.items()}
    headers |= {header: value for header, value in named.items() if value}
    return replace(account, headers=tuple(headers.items()))


def _read_key(variables: Variables) -> str:
    """Return the key. A secret key without its id does not count."""
    if variables.signing and not _read(variables.signing.key_id):
        return _read(variables.signing.bearer)
    return _read(*variables.keys)


def _read(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _misconfigured(kind: ErrorKind, message: str) -> ProviderError:
    return ProviderError(kind=kind, message=message, hint=_("An admin can correct it."))
