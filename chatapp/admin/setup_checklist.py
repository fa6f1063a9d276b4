"""The checklist of the admin's overview: what a new installation still needs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Exists, Subquery
from django.urls import reverse
from django.utils.translation import gettext_lazy

from chatapp.models import Approval, ChatModel, Member
from chatapp.providers.access.model_choice import list_offered_models
from chatapp.providers.registry import DEMO_MODEL
from mcpconfig.models import Service, ToolSetting
from mcpconfig.values import builtin

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MODEL = gettext_lazy("Add a model")
MODEL_HELP = gettext_lazy("Until then, chats use a scripted demo assistant.")
SERVICE = gettext_lazy("Add a service")
SERVICE_HELP = gettext_lazy("An MCP server gives the assistant tools.")
TOOLS = gettext_lazy("Confirm its tools")
TOOLS_HELP = gettext_lazy("Unconfirmed tools need approval every time.")
PEOPLE = gettext_lazy("Invite members")
PEOPLE_HELP = gettext_lazy("Add a member, then send them their sign-in link.")
APPROVAL = gettext_lazy("Try an approval")
APPROVAL_HELP = gettext_lazy("In the chat, ask for something risky. Then approve or deny it.")
# What an admin needs for the pages of the steps.
RIGHTS = (
    *("chatapp.view_modelprovider", "chatapp.add_member"),
    *("mcpconfig.add_service", "mcpconfig.change_service"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """One step. `name` identifies it for styles and tests, `address` is the page where it is
    done."""

    name: str
    title: "StrOrPromise"
    help: "StrOrPromise"
    address: str
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupChecklist:
    steps: tuple[SetupStep, ...]

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)


def load_setup_checklist(admin: Member) -> SetupChecklist | None:
    """Return the steps, or None if all of them are done or this admin may not do them. The demo
    counts as none of them."""
    if not admin.has_perms(RIGHTS):
        return None
    services = Service.objects.exclude(url__startswith=builtin.PREFIX)
    confirmed = ToolSetting.objects.filter(service__in=services).exclude(confirmed_hash="")
    models = ChatModel.objects.filter(is_enabled=True, provider__is_enabled=True)
    others = Member.objects.filter(is_active=True).exclude(pk=admin.pk)
    decided = Approval.objects.filter(decided_by__isnull=False)
    exists = (Exists(rows) for rows in (confirmed, models, others, decided))
    newest = Subquery(services.order_by("-pk").values("pk")[:1])
    found = Member.objects.filter(pk=admin.pk).values_list(newest, *exists)
    service, has_confirmed, has_models, has_others, has_decided = found.get()
    steps = (
        SetupStep(
            name="model",
            title=MODEL,
            help=MODEL_HELP,
            address=reverse("admin:chatapp_modelprovider_changelist"),
            is_done=has_models or _is_offered_model(admin),
        ),
        SetupStep(
            name="service",
            title=SERVICE,
            help=SERVICE_HELP,
            address=reverse("admin:mcpconfig_service_connect"),
            is_done=service is not None,
        ),
        SetupStep(
            name="tools",
            title=TOOLS,
            help=TOOLS_HELP,
            address=_find_tools_page(service),
            is_done=service is not None and has_confirmed,
        ),
        SetupStep(
            name="people",
            title=PEOPLE,
            help=PEOPLE_HELP,
            address=reverse("admin:chatapp_invitation_add"),
            is_done=has_others,
        ),
        SetupStep(
            name="approval",
            title=APPROVAL,
            help=APPROVAL_HELP,
            address=reverse("home"),
            is_done=has_decided,
        ),
    )
    return None if all(step.is_done for step in steps) else SetupChecklist(steps=steps)


def _is_offered_model(admin: Member) -> bool:
    """Return whether a model other than the demo is offered to this admin, for example by a key in
    the environment."""
    return any(model.id != DEMO_MODEL for model in list_offered_models(admin))


def _find_tools_page(service_id: int | None) -> str:
    if service_id is None:
        return reverse("admin:mcpconfig_service_changelist")
    return reverse("admin:mcpconfig_service_review_tools", args=[service_id])
