"""The admin of groups. A group may use services and models, and may share an allowance."""

from typing import Any, cast

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PermissionGroupAdmin
from django.contrib.auth.models import Group
from django.contrib.humanize.templatetags.humanize import intcomma
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY
from chatapp.admin.policy.tested_saves import TestedSavesMixin
from chatapp.models import (
    Allowance,
    ChatModel,
    Member,
    PolicyRule,
    SecondSignature,
    ToolLimit,
)
from chatapp.people.admin_rights import may_give
from mcpconfig.admin.tools import LabelledFormSet
from mcpconfig.models import Service

# A form with more of them is slow, and with a thousand it is refused.
MOST_MEMBERS = 100
Membership = Member.groups.through


class MembershipInline(admin.TabularInline):
    model = Membership
    verbose_name = _lazy("member")
    verbose_name_plural = _lazy("members")
    autocomplete_fields = ("member",)
    formset = LabelledFormSet
    extra = 1

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.select_related("member", "group")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Those who are in the group are listed and can be removed, and others added. A field to
        exchange one for another would need a statement each."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) or super().has_change_permission(
            request, obj
        )


# The group admin of Django lists permissions, which this application does not use.
admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(TestedSavesMixin, PermissionGroupAdmin):
    empty_list = _lazy(
        "No groups yet. Add one to share services and models with some members only."
    )
    filter_horizontal = ()
    fields = ("name", "may_use", "is_named_by")
    readonly_fields = ("may_use", "is_named_by", "members_link")
    inlines = (MembershipInline,)
    list_display = ("name", "size")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        groups: QuerySet[Group] = super().get_queryset(request)
        return groups.annotate(size=Count("user"))

    def get_fields(self, request: HttpRequest, obj: Group | None = None) -> Any:
        if obj is None:
            return ("name",)
        return (*self.fields, "members_link") if self._is_large(obj) else self.fields

    def get_inlines(self, request: HttpRequest, obj: Group | None) -> Any:
        """Leave out the members of a large group: a form with thousands of fields is refused."""
        return () if obj is not None and self._is_large(obj) else super().get_inlines(request, obj)

    def _is_large(self, group: Any) -> bool:
        return int(group.size) > MOST_MEMBERS

    @admin.display(description=_lazy("Members"))
    def members_link(self, group: Any) -> SafeString:
        """Lead to the members of a large group."""
        address = reverse("admin:chatapp_member_changelist", query={"group": group.pk})
        text = _("View %(count)s members") % {"count": intcomma(group.size)}
        how = _("To add or remove a member of a large group, change the groups of the member.")
        return format_html('<a href="{}">{}</a>. {}', address, text, how)

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_give(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_give(request, obj)

    @admin.display(description=_lazy("May use"))
    def may_use(self, group: Group) -> str:
        """Return the services and models that are shared with this group."""
        services = Service.objects.filter(groups=group, visibility=Service.Visibility.GROUPS)
        models = ChatModel.objects.filter(groups=group, audience=ChatModel.Audience.GROUPS)
        return ", ".join(map(str, [*services, *models.select_related("provider")])) or EMPTY

    @admin.display(description=_lazy("Named by"))
    def is_named_by(self, group: Group) -> str:
        """Return what policy says of this group."""
        rows = [
            *PolicyRule.objects.filter(groups=group),
            *ToolLimit.objects.filter(group=group).select_related("service", "group"),
            *SecondSignature.objects.filter(Q(approvers=group) | Q(escalation=group)),
            *Allowance.objects.filter(group=group).select_related("person", "group"),
        ]
        return ", ".join(map(str, rows)) or EMPTY

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect a group that a rule or a limit names.

        Without its groups a rule would apply to everybody, and a limit would be deleted.
        """
        objects, counts, missing, protected = super().get_deleted_objects(objs, request)
        rules = PolicyRule.objects.filter(groups__in=list(objs)).distinct()
        limits = ToolLimit.objects.filter(group__in=list(objs))
        references = [
            *(
                _("The rule “%(rule)s” uses it. Change the rule first.") % {"rule": rule}
                for rule in rules
            ),
            *(
                _("The limit “%(limit)s” uses it. Change the limit first.") % {"limit": limit}
                for limit in limits
            ),
        ]
        return objects, counts, missing, [*protected, *references]

    @admin.display(description=_lazy("Members"), ordering="size")
    def size(self, group: Any) -> int:
        return int(group.size)


def _may_give(request: HttpRequest, group: Group | None) -> bool:
    """Whether this admin has the permissions that somebody gave the group by hand."""
    if group is None:
        return True
    return may_give(cast(Member, request.user), Q(group=group))
