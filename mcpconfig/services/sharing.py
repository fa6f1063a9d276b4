"""What a member sees of a service that they may use. Never its configuration: not where it is, not
how one signs in, not what it answered."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractUser
from django.db.models import Exists, OuterRef

from .models import Service, ToolDefinition, ToolSetting

# Where somebody's sign-in opens the service, and not only an admin's secret.
BY_PEOPLE = (*Service.PERSONAL, Service.Authentication.OAUTH_SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Icon:
    """An emoji, or a letter on a colour."""

    text: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedView:
    """`tools` is None where the owner keeps them to themselves. `is_out_of_use`: it fails, or lacks
    a sign-in that this member cannot make."""

    name: str
    title: str
    description: str
    icon: Icon
    is_out_of_use: bool
    tools: tuple[str, ...] | None


def icon_of(service: Service) -> Icon:
    letter = service.icon or str(service)[:1].upper()
    is_letter = len(letter) == 1 and letter.isalnum()
    return Icon(text=letter, colour=service.colour if is_letter else "")


def shared_view(service: Service, member: AbstractUser) -> SharedView:
    """The service as this member sees it. Its owner and admins see its tools in any case."""
    return shared_views([service], member)[0]


def shared_views(services: Iterable[Service], member: AbstractUser) -> list[SharedView]:
    """Many of them, in as many statements as one."""
    all_of_them = list(services)
    tools = _tools([service for service in all_of_them if _sees_tools(service, member)])
    return [
        SharedView(
            name=service.name,
            title=str(service),
            description=service.description,
            icon=icon_of(service),
            is_out_of_use=service.last_error is not None,
            tools=tuple(tools[service.pk]) if service.pk in tools else None,
        )
        for service in all_of_them
    ]


def _sees_tools(service: Service, member: AbstractUser) -> bool:
    return service.shares_tools or member.is_staff or service.owner_id == member.pk


def may_connect(service: Service, member: AbstractUser) -> bool:
    """Whether this member may sign in to it. A sign-in for everybody is made by those who answer
    for the service."""
    if service.authentication == Service.Authentication.OAUTH_SHARED:
        return member.is_staff or service.owner_id == member.pk
    return service.authentication in Service.PERSONAL


def refusal_of(service: Service, member: AbstractUser) -> str:
    """Why this member, an admin perhaps, may not use the service now; empty where they may. To
    configure a service is not to act with the credentials of its owner."""
    if Service.objects.for_member(member).filter(pk=service.pk).exists():
        return ""
    if not service.is_enabled:
        return "The service is switched off. Enable it in its settings to use it."
    if service.owner is not None and not service.owner.is_active:
        return f"Nobody uses the service of {service.owner}, whose account is not active any more."
    if service.visibility == Service.Visibility.PRIVATE:
        return f"Only {service.owner} uses this service: it acts with their credentials."
    return "Only members of the groups in its settings use this service, and you are not one."


def _tools(services: Iterable[Service]) -> dict[int, list[str]]:
    """The names of the tools that are offered in chats, of each of these services."""
    found: dict[int, list[str]] = {service.pk: [] for service in services}
    off = ToolSetting.objects.filter(
        service=OuterRef("service"), name=OuterRef("name"), is_enabled=False
    )
    offered = ToolDefinition.objects.filter(~Exists(off), service__in=list(found), is_current=True)
    for service, name in offered.values_list("service", "name"):
        found[service].append(name)
    return found
