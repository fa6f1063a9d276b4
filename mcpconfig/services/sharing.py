"""The view of a service for members who may use it.

It never includes the configuration, such as the URL, the sign-in and error messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.service_admins import manages_services
from mcpconfig.values.tool_apps import is_for

# Authentication methods with a sign-in by a person, instead of a secret that an admin stored.
SIGNED_IN_BY_PEOPLE = (*Service.PERSONAL, Service.Authentication.OAUTH_SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Icon:
    """An emoji, or a letter with a background colour."""

    text: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedView:
    """A service as a member sees it.

    `tools` is None if the owner does not share them. `is_out_of_use` is true if the service fails.
    """

    name: str
    title: str
    description: str
    icon: Icon
    is_out_of_use: bool
    tools: tuple[str, ...] | None


def build_icon(service: Service) -> Icon:
    letter = service.icon or str(service)[:1].upper()
    is_letter = len(letter) == 1 and letter.isalnum()
    return Icon(text=letter, colour=service.colour if is_letter else "")


def build_shared_view(service: Service, member: AbstractUser) -> SharedView:
    """Return the service as this member sees it. Its owner and admins always see its tools."""
    return build_shared_views([service], member)[0]


def build_shared_views(services: Iterable[Service], member: AbstractUser) -> list[SharedView]:
    """Return several services as this member sees them, with the same number of queries as one."""
    services = list(services)
    tools = _list_offered_tools(
        [service for service in services if _can_see_tools(service, member)]
    )
    return [
        SharedView(
            name=service.name,
            title=str(service),
            description=service.description,
            icon=build_icon(service),
            is_out_of_use=service.last_error is not None,
            tools=tuple(tools[service.pk]) if service.pk in tools else None,
        )
        for service in services
    ]


def _can_see_tools(service: Service, member: AbstractUser) -> bool:
    return service.shares_tools or manages_services(member) or service.owner_id == member.pk


def can_sign_in(service: Service, member: AbstractUser) -> bool:
    """Return whether this member may sign in. A shared sign-in requires the owner or an admin."""
    if service.authentication == Service.Authentication.OAUTH_SHARED:
        return manages_services(member) or service.owner_id == member.pk
    return service.authentication in Service.PERSONAL


def explain_refusal(service: Service, member: AbstractUser) -> str:
    """Return why this member may not use the service now, or an empty string if they may.

    An admin may configure a private service, but not use the credentials of its owner.
    """
    if Service.objects.for_member(member).filter(pk=service.pk).exists():
        return ""
    return describe_refusal(service)


def describe_refusal(service: Service) -> str:
    """Return the reason why a member may not use the service. The caller knows that this is so."""
    if not service.is_enabled:
        return _("The service is off. To use it, enable it in its settings.")
    if service.owner is not None and not service.owner.is_active:
        return _("Nobody can use the service of %(owner)s, whose account is off.") % {
            "owner": service.owner
        }
    if service.visibility == Service.Visibility.PRIVATE:
        return _("Only %(owner)s can use this service. It acts with their credentials.") % {
            "owner": service.owner
        }
    return _("Only members of the groups in its settings can use this service. You are not in one.")


def _list_offered_tools(services: Iterable[Service]) -> dict[int, list[str]]:
    """Return the names of the enabled current tools that the model may call, by service id."""
    names: dict[int, list[str]] = {service.pk: [] for service in services}
    disabled = ToolSetting.objects.filter(
        service=OuterRef("service"), name=OuterRef("name"), is_enabled=False
    )
    offered = ToolDefinition.objects.filter(
        ~Exists(disabled), service__in=list(names), is_current=True
    )
    for service, name, meta in offered.values_list("service", "name", "meta"):
        if is_for("model", meta):
            names[service].append(name)
    return names
