"""Builds the account of a provider's row.

A row has an account of its own or the environment's, never the address of one with the key of the
other.
"""

from chatapp.models import ModelProvider
from chatapp.providers import environment
from chatapp.providers.account import Account, ProviderNames
from chatapp.providers.events import ProviderError
from chatapp.providers.failures import missing_key_error
from mcpconfig.secrets.encryption import DecryptionError

KeyPlace = ModelProvider.KeyPlace


def build_account(provider: ModelProvider) -> Account:
    """Return the account, checked without a request. Raise ProviderError for what is missing."""
    if provider.key_place == KeyPlace.ENVIRONMENT:
        return environment.read_account(provider.kind)
    names = build_names(provider)
    environment.check_address(provider.base_url, f"The address of {provider.label}")
    key, headers = _read_secrets(provider)
    if provider.key_place == KeyPlace.STORED and not key:
        raise missing_key_error(names)
    environment.check_key(key, names.key_variable)
    return Account(
        names=names,
        base_url=provider.base_url,
        key=key,
        headers=tuple(headers.items()),
        key_id=provider.key_id,
        region=provider.region or environment.SIGNED_REGION,
    )


def build_names(provider: ModelProvider) -> ProviderNames:
    return ProviderNames(
        label=provider.label,
        key_variable=f"the key of {provider.label} in the admin",
        url_variable=f"the address of {provider.label} in the admin",
    )


def describe_key_place(provider: ModelProvider) -> str:
    """Describe where the key is. The text never has the key itself."""
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
    except DecryptionError:
        return "stored, but no known key of ENCRYPTION_KEYS opens it"
    at = provider.key_changed_at
    return f"stored here, set on {at:%Y-%m-%d}" if at else "stored here"


def _read_secrets(provider: ModelProvider) -> tuple[str, dict[str, str]]:
    try:
        key = provider.stored_key() if provider.key_place == KeyPlace.STORED else ""
        return key, provider.stored_headers()
    except DecryptionError as error:
        raise ProviderError(
            kind="auth",
            message=f"The stored key of {provider.label} cannot be decrypted.",
            hint="An admin can bring the old key back in ENCRYPTION_KEYS, or enter it again.",
            detail=str(error),
        ) from error
