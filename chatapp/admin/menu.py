"""The menu of the admin, by task. Each entry is shown only to an admin who may open it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import Member
from chatapp.people.admin_rights import VIEW_CHECKS

from .attention import Attention, count_attention

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the admin in the menu.

    `model` names what an admin must be allowed to view; its list is the page if there is no
    `view`. `rights` are what the page asks for besides. `count` names the number that `Attention`
    has for it.
    """

    model: str
    view: str = ""
    title: "StrOrPromise" = ""
    rights: tuple[str, ...] = ()
    count: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    title: "StrOrPromise"
    pages: tuple[Page, ...]


SECTIONS = (
    Section(
        name="tools",
        title=_lazy("Services and tools"),
        pages=(
            Page(model="mcpconfig.service", count="failing_services"),
            Page(
                model="mcpconfig.service",
                view="mcpconfig_service_connect",
                title=_lazy("Add a service"),
                rights=("mcpconfig.add_service", "mcpconfig.change_service"),
            ),
            Page(
                model="mcpconfig.service",
                view="mcpconfig_service_health",
                title=_lazy("Service health"),
                rights=("mcpconfig.change_service",),
            ),
            Page(model="mcpconfig.tooldefinition", count="unconfirmed_tools"),
            Page(model="chatapp.trial"),
            Page(model="mcpconfig.exchange"),
            Page(model="mcpconfig.identityprovider"),
        ),
    ),
    Section(
        name="shield",
        title=_lazy("Policy"),
        pages=(
            Page(model="chatapp.policyrule"),
            Page(model="chatapp.policychange", count="waiting_changes"),
            Page(model="chatapp.housepolicy"),
            Page(
                model="chatapp.policyrule",
                view="policy_who_can",
                title=_lazy("Who can…"),
                rights=("chatapp.view_member",),
            ),
            Page(
                model="chatapp.policyrule",
                view="policy_as_person",
                title=_lazy("Tools of a member"),
                rights=("chatapp.view_member",),
            ),
            Page(
                model="chatapp.policyrule",
                view="policy_simulator",
                title=_lazy("Try a policy on past calls"),
            ),
            Page(model="chatapp.policytest"),
            Page(model="chatapp.toollimit"),
            Page(model="chatapp.secondsignature"),
            Page(model="chatapp.standin"),
        ),
    ),
    Section(
        name="people",
        title=_lazy("People"),
        pages=(
            Page(model="chatapp.member"),
            Page(model="chatapp.invitation"),
            Page(model="auth.group"),
            Page(model="chatapp.accesstoken"),
            Page(model="chatapp.sharedlink"),
            Page(model="chatapp.assistant"),
            Page(model="chatapp.savedprompt"),
        ),
    ),
    Section(
        name="model",
        title=_lazy("Models"),
        pages=(
            Page(model="chatapp.modelprovider"),
            Page(
                model="chatapp.modelprovider",
                view="chatapp_modelprovider_connect",
                title=_lazy("Add a provider"),
                rights=("chatapp.add_modelprovider", "mcpconfig.change_credential"),
            ),
            Page(model="chatapp.chatmodel"),
            Page(model="chatapp.usageofday"),
            Page(model="chatapp.allowance"),
            Page(model="chatapp.embeddingsettings"),
        ),
    ),
    Section(
        name="activity",
        title=_lazy("Activity"),
        pages=(
            Page(model="chatapp.toolcall", count="unknown_outcomes"),
            Page(model="chatapp.approval", count="waiting_approvals"),
            Page(model="chatapp.policyrule", view="policy_questions", title=_lazy("Questions")),
            Page(model="chatapp.turn"),
            Page(model="chatapp.conversation"),
            Page(model="chatapp.answerfeedback"),
            Page(model="chatapp.logentry"),
        ),
    ),
    Section(
        name="system",
        title=_lazy("System"),
        pages=(
            Page(
                model="django_tasks_database.dbtaskresult",
                view="system",
                title=_lazy("State of the system"),
                rights=(VIEW_CHECKS,),
            ),
            Page(
                model="django_tasks_database.dbtaskresult",
                view="checks",
                title=_lazy("Checks"),
                rights=(VIEW_CHECKS,),
            ),
            Page(
                model="django_tasks_database.dbtaskresult",
                title=_lazy("Background tasks"),
                count="failed_tasks",
            ),
            Page(model="chatapp.webhook"),
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    title: str
    address: str
    count: int = 0
    is_current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuSection:
    name: str
    title: str
    entries: tuple[Entry, ...]

    @property
    def count(self) -> int:
        return sum(entry.count for entry in self.entries)

    @property
    def is_current(self) -> bool:
        return any(entry.is_current for entry in self.entries)


def build_menu(request: HttpRequest, attention: Attention | None = None) -> list[MenuSection]:
    """Return the sections with the pages that this admin may open."""
    found = count_attention() if attention is None else attention
    sections = [
        MenuSection(
            name=section.name,
            title=str(section.title),
            entries=tuple(
                _build_entry(page, found) for page in section.pages if _may_open(request, page)
            ),
        )
        for section in list_sections()
    ]
    return _mark_current([section for section in sections if section.entries], request.path)


def list_sections() -> Iterator[Section]:
    """Yield the sections. What is registered and named in none of them is in the last one."""
    named = {page.model for section in SECTIONS for page in section.pages}
    labels = [model._meta.label_lower for model in admin.site._registry]
    rest = tuple(Page(model=label) for label in labels if label not in named)
    yield from SECTIONS[:-1]
    yield replace(SECTIONS[-1], pages=(*SECTIONS[-1].pages, *rest))


def _may_open(request: HttpRequest, page: Page) -> bool:
    person = cast(Member, request.user)
    if not person.has_perms(page.rights):
        return False
    model_admin = admin.site._registry.get(apps.get_model(page.model))
    return model_admin is not None and model_admin.has_view_or_change_permission(request)


def _build_entry(page: Page, attention: Attention) -> Entry:
    meta: Any = apps.get_model(page.model)._meta
    view = page.view or f"{meta.app_label}_{meta.model_name}_changelist"
    return Entry(
        title=str(page.title or capfirst(meta.verbose_name_plural)),
        address=reverse(f"admin:{view}"),
        count=getattr(attention, page.count) if page.count else 0,
    )


def _mark_current(sections: list[MenuSection], path: str) -> list[MenuSection]:
    """Mark the page whose address is the longest beginning of the path."""
    found = [entry.address for section in sections for entry in section.entries]
    current = max((each for each in found if path.startswith(each)), key=len, default="")
    return [
        replace(
            section,
            entries=tuple(
                replace(entry, is_current=entry.address == current) for entry in section.entries
            ),
        )
        for section in sections
    ]
