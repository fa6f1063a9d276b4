"""What an admin may do: the rights that another admin gives, and the permissions in each.

A member with `is_superuser` has every right. `is_staff` only opens the admin; each page asks for
a permission of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import Permission
from django.db.models import Q
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import Member

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

CHANGE_CREDENTIALS = "mcpconfig.change_credential"
VIEW_CHECKS = "chatapp.view_checks"
VIEW_CHATS = "chatapp.view_conversation"
ALL_RIGHTS = _lazy("All rights")


def _all(app: str, *models: str) -> frozenset[str]:
    acts = ("view", "add", "change", "delete")
    return frozenset(f"{app}.{act}_{model}" for act in acts for model in models)


def _view(app: str, *models: str) -> frozenset[str]:
    return frozenset(f"{app}.view_{model}" for model in models)


_POLICY = (
    *("policyrule", "policychange", "housepolicy", "policytest", "toollimit"),
    *("secondsignature", "standin"),
)
_PEOPLE = _view("chatapp", "member") | _view("auth", "group")
_SERVICES = _view("mcpconfig", "service", "tooldefinition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    name: str
    title: "StrOrPromise"
    help: "StrOrPromise"
    permissions: frozenset[str]


RIGHTS = {
    right.name: right
    for right in (
        Right(
            name="services",
            title=_lazy("Services and tools"),
            help=_lazy("Add, change and test services, and confirm their tools."),
            permissions=_all("mcpconfig", "service", "tooldefinition", "toolsetting")
            | _view("chatapp", "trial"),
        ),
        Right(
            name="credentials",
            title=_lazy("Credentials"),
            help=_lazy(
                "Enter keys and tokens of services and model providers, revoke sign-ins, and set "
                "up identity providers."
            ),
            permissions=_all("mcpconfig", "credential", "identityprovider", "oauthgrant")
            | _SERVICES,
        ),
        Right(
            name="policy",
            title=_lazy("Policy"),
            help=_lazy("Change rules, limits, second approvals and policy tests."),
            permissions=_all("chatapp", *_POLICY) | _SERVICES | _PEOPLE,
        ),
        Right(
            name="people",
            title=_lazy("People"),
            help=_lazy(
                "Invite, change and off-board members who have no further rights than this admin, "
                "and change groups."
            ),
            permissions=_all("auth", "group")
            | _all("chatapp", "member", "invitation", "accesstoken", "sharedlink")
            | _all("chatapp", "assistant", "savedprompt")
            | _view("chatapp", "usageofday"),
        ),
        Right(
            name="traces",
            title=_lazy("Traces and logs"),
            help=_lazy("Read the activity log, tool calls, and what services were sent."),
            permissions=_view("mcpconfig", "exchange")
            | _view("chatapp", "logentry", "toolcall", "approval", "turn", "trial")
            | _view("chatapp", "answerfeedback"),
        ),
        Right(
            name="models",
            title=_lazy("Models"),
            help=_lazy("Change model providers, models and allowances."),
            permissions=_all(
                "chatapp", "modelprovider", "chatmodel", "allowance", "embeddingsettings"
            )
            | _view("chatapp", "usageofday")
            | _view("mcpconfig", "service"),
        ),
        Right(
            name="system",
            title=_lazy("System"),
            help=_lazy("Read the checks and background tasks of the server, and set up webhooks."),
            permissions=_view("django_tasks_database", "dbtaskresult")
            | _all("chatapp", "webhook")
            | _view("auth", "group")
            | {VIEW_CHECKS},
        ),
        Right(
            name="chats",
            title=_lazy("Other members’ chats"),
            help=_lazy("Read chats of others after entering a reason, which their owner sees."),
            permissions=_view("chatapp", "conversation", "turn", "toolcall", "approval"),
        ),
        Right(
            name="audit",
            title=_lazy("Auditor"),
            help=_lazy("Read policy, members, services, tool calls and the log. Change nothing."),
            permissions=_view("chatapp", *_POLICY, "logentry", "toolcall", "approval", "turn")
            | _view("chatapp", "accesstoken", "sharedlink", "invitation")
            | _SERVICES
            | _PEOPLE,
        ),
    )
}


class AdminRightsBackend(BaseBackend):
    """Gives an active admin the permissions of their rights. It signs nobody in."""

    def get_user_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        if not (user_obj.is_active and user_obj.is_staff) or obj is not None:
            return set()
        return _list_granted(user_obj.rights)

    def has_module_perms(self, user_obj: Any, app_label: str) -> bool:
        granted = self.get_user_permissions(user_obj)
        return any(name.startswith(f"{app_label}.") for name in granted)


def _list_granted(rights: Iterable[str]) -> set[str]:
    return {name for right in rights if right in RIGHTS for name in RIGHTS[right].permissions}


def has_right(admin: Member, right: str) -> bool:
    return admin.is_superuser or right in admin.rights


def may_manage(admin: Member, member: Member) -> bool:
    """Whether this admin has all that the member has, or would have if active again. Nobody may
    change, sign in as or remove an admin with further rights."""
    if admin.is_superuser or admin == member:
        return True
    if member.is_superuser or not set(member.rights) <= set(admin.rights):
        return False
    return not member.is_staff or may_give(admin, Q(user=member) | Q(group__user=member))


def may_give(admin: Member, selected: Q) -> bool:
    """Whether this admin has each of these stored permissions, which somebody gave by hand."""
    stored = Permission.objects.filter(selected).values_list("content_type__app_label", "codename")
    names = {f"{app}.{codename}" for app, codename in stored}
    return admin.is_superuser or not names or names <= admin.get_all_permissions()


def lock_last_admin(member: Member) -> bool:
    """Whether this is the only active member with every right. The rows stay locked until the
    commit, so that two who leave at once do not both see the other."""
    admins = Member.objects.select_for_update().filter(is_active=True, is_superuser=True)
    return list(admins.order_by("pk").values_list("pk", flat=True)) == [member.pk]


def describe_rights(member: Member) -> list[str]:
    """Return the titles of the rights of this admin."""
    if not member.is_staff:
        return []
    if member.is_superuser:
        return [str(ALL_RIGHTS)]
    return [str(RIGHTS[name].title) for name in RIGHTS if name in member.rights]
