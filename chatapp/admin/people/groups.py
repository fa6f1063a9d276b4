"""The admin of groups. A group may use services and models, and may share an allowance."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PermissionGroupAdmin
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.policy.tested_saves import TestedSavesMixin
from chatapp.models import Member, PolicyRule, ToolLimit

Membership = Member.groups.through


class MembershipInline(admin.TabularInline):
    model = Membership
    verbose_name = _lazy("member")
    verbose_name_plural = _lazy("members")
    autocomplete_fields = ("member",)
    extra = 1


# The group admin of Django lists permissions, which this application does not use.
admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(TestedSavesMixin, PermissionGroupAdmin):
    empty_list = _lazy(
        "No groups yet. Add one to share services and models with some members only."
    )
    filter_horizontal = ()
    fields = ("name",)
    inlines = (MembershipInline,)
    list_display = ("name", "size")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        groups: QuerySet[Group] = super().get_queryset(request)
        return groups.annotate(size=Count("user"))

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
