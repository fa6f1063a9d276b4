"""Provider accounts in the server's environment variables, for the list of providers."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _

from chatapp.models import ModelProvider
from chatapp.providers import environment
from chatapp.providers.events import ProviderError


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentAccount:
    """One account. `problem` describes an invalid variable. `row` is the stored provider, if any.
    With it, only its models are offered."""

    prefix: str
    key_is: str
    address: str
    problem: str
    row: ModelProvider | None
    add_url: str


def list_environment_accounts() -> list[EnvironmentAccount]:
    """Return the accounts that are set in the environment."""
    rows = {
        row.slug: row
        for row in ModelProvider.objects.filter(key_place=ModelProvider.KeyPlace.ENVIRONMENT)
    }
    kinds = (kind for kind in environment.VARIABLES if environment.is_set(kind))
    return [_build_account(kind, rows.get(kind)) for kind in kinds]


def _build_account(kind: str, row: ModelProvider | None) -> EnvironmentAccount:
    address, problem, has_key = "", "", False
    try:
        account = environment.read_account(kind)
        address, has_key = account.base_url, bool(account.key)
    except ProviderError as error:
        problem = error.message
    prefilled = {
        "slug": kind,
        "kind": kind,
        "label": environment.VARIABLES[kind].label,
        "key_place": ModelProvider.KeyPlace.ENVIRONMENT.value,
    }
    variables = ", ".join(environment.VARIABLES[kind].keys)
    key_place = _("environment: %(variables)s") % {"variables": variables}
    return EnvironmentAccount(
        prefix=kind,
        key_is=key_place if has_key or problem else _("no key"),
        address=address or _("default"),
        problem=problem,
        row=row,
        add_url=f"{reverse('admin:chatapp_modelprovider_add')}?{urlencode(prefilled)}",
    )
