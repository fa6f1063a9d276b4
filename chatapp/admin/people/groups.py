"""Groups of members: who may use a service or a model, and who shares an allowance."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as PermissionGroupAdmin
from django.contrib.auth.models import Group
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from chatapp.models import Member, PolicyRule, ToolLimit

from .tested_saves import TestedSaves

Membership = Member.groups.through


class MembershipInline(admin.TabularInline):
    model = Membership
    verbose_name = "member"
    verbose_name_plural = "members"
    autocomplete_fields = ("member",)
    extra = 1


# Django's own page lists permissions, which nothing here looks at.
admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(TestedSaves, PermissionGroupAdmin):
    filter_horizontal = ()
    fields = ("name",)
    inlines = (MembershipInline,)
    list_display = ("name", "size")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        groups: QuerySet[Group] = super().get_queryset(request)
        return groups.annotate(size=Count("user"))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """A rule without its groups would be for everybody, and a limit would be gone: a group that
        they name stays."""
        listed, counts, lacking, protected = super().get_deleted_objects(objs, request)
        rules = PolicyRule.objects.filter(groups__in=list(objs)).distinct()
        limits = ToolLimit.objects.filter(group__in=list(objs))
        named = [
            *(f"The rule “{rule}” names it. Change the rule first." for rule in rules),
            *(f"The limit of {limit} names it. Change the limit first." for limit in limits),
        ]
        return listed, counts, lacking, [*protected, *named]

    @admin.display(description="Members", ordering="size")
    def size(self, group: Any) -> int:
        return int(group.size)
