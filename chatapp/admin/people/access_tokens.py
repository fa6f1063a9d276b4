"""The admin of access tokens: list and revoke them."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.admin.activity.filters import PersonFilter
from chatapp.api import access_tokens
from chatapp.models import AccessToken
from mcpconfig.admin.filters import HeadingMixin
from mcpconfig.admin.read_only import ReadOnlyMixin


class RevokedFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("revocation date")


class ExpiryFilter(HeadingMixin, admin.DateFieldListFilter):
    heading = _lazy("expiry date")


@admin.register(AccessToken)
class AccessTokenAdmin(ReadOnlyMixin, admin.ModelAdmin):
    """Tokens can be revoked but not added, because a token acts in the name of its person."""

    empty_list = _lazy(
        "No access tokens yet. Members create them in the chat, under “Access tokens”."
    )
    list_display = (
        "name",
        "person",
        "prefix",
        "permissions",
        "is_live",
        "expires_at",
        "last_used_at",
    )
    list_filter = (("revoked_at", RevokedFilter), ("expires_at", ExpiryFilter), PersonFilter)
    person_path = "person"
    list_select_related = ("person",)
    search_fields = ("name", "prefix", "person__username")
    fields = (
        *("name", "person", "prefix", "permissions", "created_at", "expires_at"),
        *("last_used_at", "revoked_at"),
    )
    readonly_fields = ("permissions",)
    actions = ("revoke",)

    @admin.display(description=_lazy("Permissions"))
    def permissions(self, token: AccessToken) -> str:
        return "; ".join(token.reaches)

    @admin.display(description=_lazy("Active"), boolean=True)
    def is_live(self, token: AccessToken) -> bool:
        return not token.has_ended and token.person.is_active

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chatapp.change_accesstoken")

    @admin.action(description=_lazy("Revoke selected tokens"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        count = sum(access_tokens.revoke(token) for token in queryset)
        text = ngettext("Revoked %(number)s token.", "Revoked %(number)s tokens.", count)
        messages.success(request, text % {"number": count})
