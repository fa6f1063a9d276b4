"""The verbs `mcp add` and `mcp set`."""

import logging
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from django.forms import BaseForm, model_to_dict
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.net.addresses import check_url
from mcpconfig.output import services
from mcpconfig.services.service_form import ServiceForm
from mcpconfig.values import builtin

from .service_options import Fields, add_service_options, build_fields
from .verbs import AddVerb, Options, VerbCommand, get_service, make_failure

logger = logging.getLogger(__name__)


def add_configuration_verbs(add_verb: AddVerb) -> None:
    add = add_verb("add", _("add a service"))
    add.add_argument("url", help=_("its address, beginning with https://"))
    change: CommandParser = add_verb("set", _("change the given settings only"))
    change.add_argument("--url", help=_("new URL; stored credentials and tools are deleted"))
    for parser in (add, change):
        add_service_options(parser)


class ConfigurationVerbs(VerbCommand):
    """Verbs that save services with the form of the admin."""

    def _add(self, options: Options) -> None:
        fields = {
            "name": options["name"],
            "visibility": Service.Visibility.EVERYONE,
            **build_fields(options),
        }
        service = _store_service(Service(), fields)
        logger.info("Service %s was added with the URL %s.", service.name, service.url)
        text = _("Added %(name)s. To test it: %(command)s") % {
            "name": service.name,
            "command": f"manage.py mcp test {service.name}",
        }
        self._print(options, services.build_service_value(service), [text])

    def _set(self, options: Options) -> None:
        service = get_service(options)
        fields = build_fields(options)
        if not fields:
            raise make_failure(
                _("Nothing to change."),
                _("See: %(command)s") % {"command": "manage.py mcp set --help"},
            )
        has_moved = fields.get("url", service.url) != service.url
        service = _store_service(service, fields)
        logger.info("Service %s was changed: %s.", service.name, ", ".join(sorted(fields)))
        lines = [_("Changed %(name)s.") % {"name": service.name}]
        if has_moved:
            lines += [_("The URL changed, so the old credentials and tools were deleted.")]
        self._print(options, services.build_service_value(service), lines)


def _store_service(service: Service, fields: Fields) -> Service:
    """Save the service with these fields, and return it. Raise `Failure` if they are invalid."""
    form = _build_form(service, fields)
    if not form.is_valid():
        raise make_failure(" ".join(list_form_errors(form)))
    with transaction.atomic():
        changed = form.save(commit=False)
        if service.pk is None:
            changed.save()
        else:
            _save_changed(changed, set(form.changed_data))
        form.save_m2m()
        form.store_secrets()
    return Service.objects.get(pk=changed.pk)


def _build_form(service: Service, fields: Fields) -> ServiceForm:
    stored = model_to_dict(service, fields=ServiceForm.Meta.fields)
    groups = [group.pk for group in stored["groups"]]
    data: dict[str, Any] = stored | {"groups": groups} | fields
    is_oauth = data["authentication"] in Service.OAUTH
    if not is_oauth and (fields.get("client_id") or fields.get("scopes")):
        raise make_failure(_("--client-id and --scope need OAuth."), _("Add --oauth."))
    if "url" in fields and not builtin.is_builtin(data["url"]):
        check_url(data["url"], allows_private=data["allows_private_addresses"])
    return ServiceForm(data, instance=service)


def _save_changed(service: Service, changed: set[str]) -> None:
    """Save the changed fields only, and clear an earlier failure.

    Other fields may have changed since the service was loaded. The failure is cleared because the
    change may have removed its cause.
    """
    cleared = service.forgotten_failure()
    for field, value in cleared.items():
        setattr(service, field, value)
    own = {field.name for field in Service._meta.concrete_fields}
    service.save(update_fields=(changed & own) | set(cleared))


def list_form_errors(form: BaseForm) -> list[str]:
    return [
        str(message) if field == "__all__" else f"{field.replace('_', ' ')}: {message}"
        for field, messages in form.errors.items()
        for message in messages
    ]
