"""The verbs of the `mcp` command for identity providers, where a company's people sign in."""

import argparse
import logging
from typing import Any

from django.conf import settings
from django.db.models import ProtectedError
from django.forms import model_to_dict

from mcpconfig.admin.identity_provider_form import IdentityProviderForm
from mcpconfig.console import Json, field_lines
from mcpconfig.models import IdentityProvider
from mcpconfig.oauth.document import company_redirect_uri

from .configuring import complaints
from .service_options import from_environment, named_provider
from .verbs import MakeVerb, Options, Verbs, wrong

logger = logging.getLogger(__name__)

_FIELDS = ("title", "issuer", "client_id", "allows_private_addresses")


def add_identity_provider_verbs(verb: MakeVerb) -> None:
    one = verb("identity-provider", "see, add, change or remove where a company signs in")
    one.add_argument("--title", help="what people read")
    one.add_argument("--issuer", metavar="URL", help="its name; with --client-id it is added")
    one.add_argument("--client-id", metavar="ID", help="what this application is called there")
    one.add_argument("--client-secret-env", metavar="VAR", help="the variable that holds it")
    one.add_argument(
        "--allow-private",
        dest="allows_private_addresses",
        action=argparse.BooleanOptionalAction,
        help="http:// and own network",
    )
    one.add_argument("--remove", action="store_true", help="forget it and its sign-ins")


class IdentityProviderVerbs(Verbs):
    """They keep what the admin's form would keep."""

    def _identity_providers(self, options: Options) -> None:
        found = list(IdentityProvider.objects.all())
        lines = [f"{each.name:<24} {each.issuer}" for each in found]
        self._print(options, [_value(each) for each in found], lines or ["None yet."])

    def _identity_provider(self, options: Options) -> None:
        said = {name: options[name] for name in _FIELDS if options[name] is not None}
        if options["client_secret_env"]:
            said["client_secret"] = from_environment(options["client_secret_env"])
        if options["remove"]:
            self._remove_provider(options)
            return
        known = IdentityProvider.objects.filter(name=options["name"]).first()
        if not said:
            provider = known or named_provider(options["name"])
        else:
            provider = _stored(known or IdentityProvider(name=options["name"]), said)
            logger.info("Identity provider %s was set: %s.", provider.name, ", ".join(sorted(said)))
        self._print(options, _value(provider), field_lines(_value(provider)))

    def _remove_provider(self, options: Options) -> None:
        provider = named_provider(options["name"])
        try:
            provider.delete()
        except ProtectedError as error:
            names = ", ".join(provider.services.values_list("name", flat=True))
            raise wrong(
                f"It opens services: {names}.", "Open these in another way first."
            ) from error
        logger.info("Identity provider %s was removed.", provider.name)
        self._print(options, {"removed": provider.name}, [f"{provider.name} is removed."])


def _stored(provider: IdentityProvider, said: dict[str, Any]) -> IdentityProvider:
    form = IdentityProviderForm(
        model_to_dict(provider, fields=IdentityProviderForm.Meta.fields) | said, instance=provider
    )
    if not form.is_valid():
        raise wrong(" ".join(complaints(form)))
    return form.store()


def _value(provider: IdentityProvider) -> Json:
    base = settings.PUBLIC_URL
    return {
        "name": provider.name,
        "title": provider.title,
        "issuer": provider.issuer,
        "client_id": provider.client_id,
        "has_secret": bool(provider.secret),
        "allows_private_addresses": provider.allows_private_addresses,
        "redirect_uri": company_redirect_uri(provider, base) if base else None,
        "services": list(provider.services.values_list("name", flat=True)),
        "sign_ins": provider.sign_ins.count(),
    }
