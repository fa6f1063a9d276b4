"""The last step of *Add a service*: the service, its people, its secrets and its confirmed tools,
all or nothing."""

from collections.abc import Collection

from django.db import transaction
from mcp.shared.auth import OAuthClientInformationFull

from mcpconfig.models import Service, ServiceDraft
from mcpconfig.oauth.servers.client_registration import store_registration
from mcpconfig.services.service_drafts import AddServiceForm, read_registration
from mcpconfig.services.tool_definitions import confirm_tools, hash_definition, store_listing
from mcpconfig.values.results import Listing, Tool

Authentication = Service.Authentication
_SIGNED_IN = (Authentication.OAUTH_USER, Authentication.OAUTH_SHARED)


def find_changed(
    service: Service, shown: Collection[Tool], listing: Listing, ticked: Collection[str]
) -> list[str]:
    """Return the names of ticked tools that the service no longer describes as they were shown."""
    current = {hash_definition(service, tool) for tool in listing.tools}
    return [
        tool.name
        for tool in shown
        if (hash_ := hash_definition(service, tool)) in ticked and hash_ not in current
    ]


@transaction.atomic
def add_service(
    form: AddServiceForm, listing: Listing | None, ticked: Collection[str], *, is_enabled: bool
) -> tuple[Service, int]:
    """Save the valid form of a draft. Return the service and the number of confirmed tools.

    Only definitions whose hash is ticked are confirmed, so a tool that changed since it was shown
    is not. Raise `ServiceDraft.DoesNotExist` if another request has added or discarded the draft.
    """
    draft = ServiceDraft.objects.filter(pk=form.draft.pk)
    if not draft.delete()[0]:  # first, so that it waits for another request with this draft
        raise ServiceDraft.DoesNotExist
    service: Service = form.save(commit=False)
    service.is_enabled = is_enabled
    service.save()
    form.save_m2m()
    form.store_secrets()
    _store_registration(form, service)
    confirmed = 0
    if listing is not None:
        stored = store_listing(service, listing)
        confirmed = confirm_tools(each for each in stored if each.hash in ticked)
    return service, confirmed


def _store_registration(form: AddServiceForm, service: Service) -> None:
    """Keep the client that the check registered, unless it is for another redirect URL."""
    registration = read_registration(form.draft)
    if registration is None or service.authentication not in _SIGNED_IN or service.client_id:
        return
    if not registration.redirect_uri.endswith(f"/oauth/mcp/{service.name}/callback"):
        return
    store_registration(
        service,
        registration.issuer,
        registration.redirect_uri,
        registration.scope,
        OAuthClientInformationFull.model_validate(registration.answer),
    )
