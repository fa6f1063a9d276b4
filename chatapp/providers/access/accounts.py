"""Builds the account of a provider's row.

A row has an account of its own or the environment's, never the address of one with the key of the
other.
"""

from django.utils.translation import gettext as _

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
    return build_own_account(provider, *_read_secrets(provider))


def build_own_account(provider: ModelProvider, key: str, headers: dict[str, str]) -> Account:
    """Return the account of a row with these secrets, which need not be stored yet."""
    names = build_names(provider)
    environment.check_address(
        provider.base_url, _("The address of %(provider)s") % {"provider": provider.label}
    )
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
        key_variable=_("the key of %(provider)s in the admin") % {"provider": provider.label},
        url_variable=_("the address of %(provider)s in the admin") % {"provider": provider.label},
    )


def describe_key_place(provider: ModelProvider) -> str:
    """Describe where the key is. The text never has the key itself."""
    match provider.key_place:
        case KeyPlace.ENVIRONMENT:
            is_there = environment.is_set(provider.kind)
            variables = _(" or ").join(environment.VARIABLES[provider.kind].keys)
            if is_there:
                return _("environment: %(variables)s") % {"variables": variables}
            return _("environment: %(variables)s, which is not set") % {"variables": variables}
        case KeyPlace.NONE:
            return _("no key needed")
    if not provider.sealed_key:
        return _("not set")
    try:
        provider.stored_key()
    except DecryptionError:
        return _("stored, but no known key in ENCRYPTION_KEYS opens it")
    at = provider.key_changed_at
    return (
        _("stored here, set on %(date)s") % {"date": f"{at:%Y-%m-%d}"} if at else _("stored here")
    )


def _read_secrets(provider: ModelProvider) -> tuple[str, dict[str, str]]:
    try:
        key = provider.stored_key() if provider.key_place == KeyPlace.STORED else ""
        return key, provider.stored_headers()
    except DecryptionError as error:
        raise ProviderError(
            kind="auth",
            message=_("The stored key of %(provider)s can’t be decrypted.")
            % {"provider": provider.label},
            hint=_("An admin can restore the old key in ENCRYPTION_KEYS, or enter it again."),
            detail=str(error),
        ) from error
