"""The verbs of the `mcp` command for identity providers."""

import argparse
import logging
from typing import Any

from django.conf import settings
from django.db.models import ProtectedError
from django.forms import model_to_dict
from django.utils.translation import gettext as _

from mcpconfig.models import IdentityProvider
from mcpconfig.oauth.servers.client_metadata import build_company_redirect_uri
from mcpconfig.output.services import Json, format_fields
from mcpconfig.services.identity_provider_form import IdentityProviderForm

from .configuration_verbs import list_form_errors
from .service_options import get_identity_provider, read_environment
from .verbs import AddVerb, Options, VerbCommand, make_failure

logger = logging.getLogger(__name__)

_FIELDS = ("title", "issuer", "client_id", "allows_private_addresses")


def add_identity_provider_verbs(add_verb: AddVerb) -> None:
    verb = add_verb("identity-provider", _("show, add, change or remove an identity provider"))
    verb.add_argument("--title", help=_("the name shown to people"))
    verb.add_argument(
        "--issuer", metavar="URL", help=_("its issuer; adds it together with --client-id")
    )
    verb.add_argument("--client-id", metavar="ID", help=_("this application’s client ID there"))
    verb.add_argument(
        "--client-secret-env", metavar="VAR", help=_("the variable with the client secret")
    )
    verb.add_argument(
        "--allow-private",
        dest="allows_private_addresses",
        action=argparse.BooleanOptionalAction,
        help=_("allow http:// and private addresses"),
    )
    verb.add_argument("--remove", action="store_true", help=_("remove it and its sign-ins"))


class IdentityProviderVerbs(VerbCommand):
    """Verbs that save identity providers with the form of the admin."""

    def _identity_providers(self, options: Options) -> None:
        providers = list(IdentityProvider.objects.all())
        lines = [f"{provider.name:<24} {provider.issuer}" for provider in providers]
        values = [_build_value(provider) for provider in providers]
        self._print(options, values, lines or [_("No identity providers yet.")])

    def _identity_provider(self, options: Options) -> None:
        fields = {name: options[name] for name in _FIELDS if options[name] is not None}
        if options["client_secret_env"]:
            fields["client_secret"] = read_environment(options["client_secret_env"])
        if options["remove"]:
            self._remove_provider(options)
            return
        existing = IdentityProvider.objects.filter(name=options["name"]).first()
        if not fields:
            provider = existing or get_identity_provider(options["name"])
        else:
            provider = _store_provider(existing or IdentityProvider(name=options["name"]), fields)
            logger.info(
                "Identity provider %s was set: %s.", provider.name, ", ".join(sorted(fields))
            )
        self._print(options, _build_value(provider), format_fields(_build_value(provider)))

    def _remove_provider(self, options: Options) -> None:
        provider = get_identity_provider(options["name"])
        try:
            provider.delete()
        except ProtectedError as error:
            names = ", ".join(provider.services.values_list("name", flat=True))
            raise make_failure(
                _("These services use it: %(names)s.") % {"names": names},
                _("Change their sign-in first."),
            ) from error
        logger.info("Identity provider %s was removed.", provider.name)
        self._print(
            options, {"removed": provider.name}, [_("Removed %(name)s.") % {"name": provider.name}]
        )


def _store_provider(provider: IdentityProvider, fields: dict[str, Any]) -> IdentityProvider:
    form = IdentityProviderForm(
        model_to_dict(provider, fields=IdentityProviderForm.Meta.fields) | fields, instance=provider
    )
    if not form.is_valid():
        raise make_failure(" ".join(list_form_errors(form)))
    return form.store()


def _build_value(provider: IdentityProvider) -> Json:
    public_url = settings.PUBLIC_URL
    return {
        "name": provider.name,
        "title": provider.title,
        "issuer": provider.issuer,
        "client_id": provider.client_id,
        "has_secret": bool(provider.secret),
        "allows_private_addresses": provider.allows_private_addresses,
        "redirect_uri": build_company_redirect_uri(provider, public_url) if public_url else None,
        "services": list(provider.services.values_list("name", flat=True)),
        "sign_ins": provider.sign_ins.count(),
    }
