"""`mcp add` and `mcp set`: services from the command line."""

import logging
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from django.forms import BaseForm, model_to_dict

from mcpconfig import builtin, console
from mcpconfig.admin.service_form import ServiceForm
from mcpconfig.models import Service
from mcpconfig.network import check_url

from .service_options import Fields, add_service_options, fields_of
from .verbs import MakeVerb, Options, Verbs, named_service, wrong

logger = logging.getLogger(__name__)


def add_configuring_verbs(verb: MakeVerb) -> None:
    adding = verb("add", "configure a service")
    adding.add_argument("url", help="where it is, beginning with https://")
    changing: CommandParser = verb("set", "change what is configured; the rest stays")
    changing.add_argument("--url", help="another server: credentials and what was known go")
    for parser in (adding, changing):
        add_service_options(parser)


class ConfiguringVerbs(Verbs):
    """They keep what the admin's form would keep."""

    def _add(self, options: Options) -> None:
        fields = {"name": options["name"], **fields_of(options)}
        service = _stored(Service(), fields)
        logger.info("Service %s was added with the URL %s.", service.name, service.url)
        said = f"{service.name} is added. Try it: manage.py mcp test {service.name}"
        self._print(options, console.service_value(service), [said])

    def _set(self, options: Options) -> None:
        service = named_service(options)
        fields = fields_of(options)
        if not fields:
            raise wrong("Nothing was to be changed.", "See: manage.py mcp set --help")
        has_moved = fields.get("url", service.url) != service.url
        service = _stored(service, fields)
        logger.info("Service %s was changed: %s.", service.name, ", ".join(sorted(fields)))
        lines = [f"{service.name} is changed."]
        if has_moved:
            lines += ["The URL is new: the old credentials and what was known are gone."]
        self._print(options, console.service_value(service), lines)


def _stored(service: Service, fields: Fields) -> Service:
    """The service with these fields; a Failure says what is wrong with them."""
    form = _form(service, fields)
    if not form.is_valid():
        raise wrong(" ".join(complaints(form)))
    with transaction.atomic():
        changed = form.save(commit=False)
        if service.pk is None:
            changed.save()
        else:
            _save(changed, set(form.changed_data))
        form.save_m2m()
        form.store_secrets()
    return Service.objects.get(pk=changed.pk)


def _form(service: Service, fields: Fields) -> ServiceForm:
    before = model_to_dict(service, fields=ServiceForm.Meta.fields)
    said: dict[str, Any] = before | {"groups": [each.pk for each in before["groups"]]} | fields
    is_oauth = said["authentication"] in Service.OAUTH
    if not is_oauth and (fields.get("client_id") or fields.get("scopes")):
        raise wrong("--client-id and --scope are for OAuth.", "Add --oauth.")
    if "url" in fields and not builtin.is_builtin(said["url"]):
        check_url(said["url"], allows_private=said["allows_private_addresses"])
    return ServiceForm(said, instance=service)


def _save(service: Service, changed: set[str]) -> None:
    """Only what was said: facts may have been learned since. It may be the cure, so an earlier
    failure does not stand."""
    healed = service.forgotten_failure()
    for field, value in healed.items():
        setattr(service, field, value)
    own = {field.name for field in Service._meta.concrete_fields}
    service.save(update_fields=(changed & own) | set(healed))


def complaints(form: BaseForm) -> list[str]:
    return [
        str(message) if field == "__all__" else f"{field.replace('_', ' ')}: {message}"
        for field, messages in form.errors.items()
        for message in messages
    ]
