"""The admin of shared links: list and revoke them."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.admin.activity.chat_reasons import FilteredLookupsMixin
from chatapp.admin.badges import EMPTY
from chatapp.models import Member, SharedLink
from chatapp.sharing import links
from mcpconfig.admin.filters import HeadingMixin, SeveralValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin


class RevokedFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("revocation date")


class ExpiryFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("expiry date")


@admin.register(SharedLink)
class SharedLinkAdmin(FilteredLookupsMixin, ReadOnlyMixin, admin.ModelAdmin):
    """Links can be revoked, but not opened from here: an admin reads a chat after giving a reason,
    on the pages of chats."""

    empty_list = _lazy("No shared links yet. Members create them in the menu of a chat.")
    list_display = ("name", "owner", "audience", "is_live", "expires_at", "opened", "opened_at")
    list_filter = (
        ("audience", SeveralValuesFilter),
        ("revoked_at", RevokedFilter),
        ("expires_at", ExpiryFilter),
    )
    list_select_related = ("conversation__owner",)
    search_fields = ("conversation__owner__username",)
    fields = (
        *("name", "owner", "audience", "tools", "includes_files", "messages", "taken_at"),
        *("created_at", "expires_at", "revoked_at", "opened", "opened_at", "readers"),
    )
    readonly_fields = ("name", "owner", "readers")
    actions = ("revoke",)

    @admin.display(description=_lazy("Link"))
    def name(self, link: SharedLink) -> str:
        return str(link)

    @admin.display(description=_lazy("Owner"), ordering="conversation__owner__username")
    def owner(self, link: SharedLink) -> Member:
        return link.conversation.owner

    @admin.display(description=_lazy("Active"), boolean=True)
    def is_live(self, link: SharedLink) -> bool:
        chat = link.conversation
        return not link.has_ended and chat.deleted_at is None and chat.owner.is_active

    @admin.display(description=_lazy("Members who opened it"))
    def readers(self, link: SharedLink) -> str:
        names = link.readers.order_by("opened_at").values_list("person__username", flat=True)
        return ", ".join(names) or EMPTY

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chatapp.change_sharedlink")

    @admin.action(description=_lazy("Revoke selected links"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[SharedLink]) -> None:
        count = sum(links.revoke(link) for link in queryset.select_related("conversation__owner"))
        text = ngettext("Revoked %(number)s link.", "Revoked %(number)s links.", count)
        messages.success(request, text % {"number": count})
