"""A provider's row as the account that requests go out with.

A row has an account of its own or the environment's, whole: never the address of one with the key
of the other.
"""

from chatapp.models import ModelProvider
from chatapp.providers import environment
from chatapp.providers.account import Account
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import ProviderNames, missing_key
from mcpconfig.secrets import Undecryptable

KeyPlace = ModelProvider.KeyPlace


def account_of(provider: ModelProvider) -> Account:
    """The account, checked as far as that goes without asking; a ProviderError says what is
    missing."""
    if provider.key_place == KeyPlace.ENVIRONMENT:
        return environment.account(provider.kind)
    names = names_of(provider)
    environment.check_address(provider.base_url, f"The address of {provider.label}")
    key, headers = _secrets_of(provider)
    if provider.key_place == KeyPlace.STORED and not key:
        raise missing_key(names)
    environment.check_key(key, names.key_variable)
    return Account(
        names=names,
        base_url=provider.base_url,
        key=key,
        headers=tuple(headers.items()),
        key_id=provider.key_id,
        region=provider.region or environment.SIGNED_REGION,
    )


def names_of(provider: ModelProvider) -> ProviderNames:
    return ProviderNames(
        label=provider.label,
        key_variable=f"the key of {provider.label} in the admin",
        url_variable=f"the address of {provider.label} in the admin",
    )


def key_place_of(provider: ModelProvider) -> str:
    """Where the key is, in words; never the key itself."""
    match provider.key_place:
        case KeyPlace.ENVIRONMENT:
            is_there = environment.is_set(provider.kind)
            variables = " or ".join(environment.VARIABLES[provider.kind].keys)
            return f"environment: {variables}" + ("" if is_there else ", which is not set")
        case KeyPlace.NONE:
            return "none is needed"
    if not provider.sealed_key:
        return "not set"
    try:
        provider.stored_key()
    except Undecryptable:
        return "stored, but no known key of ENCRYPTION_KEYS opens it"
    at = provider.key_changed_at
    return f"stored here, set on {at:%Y-%m-%d}" if at else "stored here"


def _secrets_of(provider: ModelProvider) -> tuple[str, dict[str, str]]:
    try:
        key = provider.stored_key() if provider.key_place == KeyPlace.STORED else ""
        return key, provider.stored_headers()
    except Undecryptable as error:
        raise ProviderError(
            kind="auth",
            message=f"The stored key of {provider.label} cannot be decrypted.",
            hint="An admin can bring the old key back in ENCRYPTION_KEYS, or enter it again.",
            detail=str(error),
        ) from error
