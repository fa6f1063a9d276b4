"""Access tokens, to see whose programs may act here, and to revoke them."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from chatapp.models import AccessToken
from chatapp.turns import access_tokens

from .read_only import ReadOnly


@admin.register(AccessToken)
class AccessTokenAdmin(ReadOnly, admin.ModelAdmin):
    """Nobody makes a token for another person here: it would act in that person's name."""

    list_display = ("name", "person", "prefix", "may", "is_live", "expires_at", "last_used_at")
    list_filter = ("revoked_at", "expires_at", "person")
    list_select_related = ("person",)
    search_fields = ("name", "prefix", "person__username")
    fields = (
        *("name", "person", "prefix", "may", "created_at", "expires_at"),
        *("last_used_at", "revoked_at"),
    )
    readonly_fields = ("may",)
    actions = ("revoke",)

    @admin.display(description="May")
    def may(self, token: AccessToken) -> str:
        return "; ".join(token.reaches)

    @admin.display(description="Counts", boolean=True)
    def is_live(self, token: AccessToken) -> bool:
        return not token.has_ended and token.person.is_active

    @admin.action(description="Revoke the selected tokens", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AccessToken]) -> None:
        revoked = sum(access_tokens.revoke(token) for token in queryset)
        messages.success(request, f"Revoked {revoked} token{'' if revoked == 1 else 's'}.")
