"""The admin of invitations: create, send and revoke them. The link is shown once."""

from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.accounts import invitations
from chatapp.admin.badges import EMPTY, render_badge
from chatapp.models import Invitation, Member
from chatapp.people.admin_rights import may_give


class InvitationForm(ModelForm):
    admin: Member

    class Meta:
        model = Invitation
        fields = ("email", "groups")
        widgets = {"groups": forms.CheckboxSelectMultiple}  # noqa: RUF012

    def clean_groups(self) -> QuerySet[Group]:
        groups: QuerySet[Group] = self.cleaned_data["groups"]
        if not may_give(self.admin, Q(group__in=groups)):
            raise forms.ValidationError(_("One of these groups has rights that you don’t have."))
        return groups


class StateFilter(admin.SimpleListFilter):
    title = _lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", _("Open")), ("accepted", _("Accepted")), ("ended", _("Ended"))]

    def queryset(
        self, request: HttpRequest, queryset: QuerySet[Invitation]
    ) -> QuerySet[Invitation]:
        still_open = Invitation.objects.open()
        match self.value():
            case "open":
                return queryset.filter(pk__in=still_open.values("pk"))
            case "accepted":
                return queryset.filter(accepted_at__isnull=False)
            case "ended":
                return queryset.filter(accepted_at=None).exclude(pk__in=still_open.values("pk"))
        return queryset


@admin.register(Invitation)
class InvitationAdmin(admin.ModelAdmin):
    """An invitation is never changed: another one is created in its place."""

    empty_list = _lazy("No invitations yet. Add one to let somebody make an account.")
    form = InvitationForm
    list_display = ("__str__", "state", "joins", "invited_by", "created_at", "expires_at")
    list_filter = (StateFilter,)
    list_select_related = ("invited_by", "accepted_by")
    search_fields = ("email", "invited_by__username", "accepted_by__username")
    actions = ("revoke",)
    fields = ("email", "groups")
    change_fields = (
        *("email", "joins", "state", "invited_by", "created_at", "expires_at"),
        *("accepted_by", "accepted_at", "revoked_at"),
    )
    readonly_fields = ("joins", "state")

    def get_fields(self, request: HttpRequest, obj: Invitation | None = None) -> Any:
        return self.fields if obj is None else self.change_fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Invitation]:
        rows: QuerySet[Invitation] = super().get_queryset(request)
        return rows.prefetch_related("groups")

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.admin = request.user
        if "groups" in form.base_fields:  # groups are added on their own pages
            form.base_fields["groups"].widget.can_add_related = False
        return form

    def has_change_permission(self, request: HttpRequest, obj: Invitation | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Invitation | None = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("chatapp.change_invitation")

    def save_model(self, request: HttpRequest, obj: Invitation, form: Any, change: bool) -> None:
        obj.invited_by = cast(Member, request.user)
        form.token = obj.set_token()
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Log the invitation with its groups. The link is sent or shown after the commit: no
        transaction waits for a mail server."""
        super().save_related(request, form, formsets, change)
        invitations.log_created(form.instance)
        link = invitations.build_link(form.token)
        transaction.on_commit(lambda: self._hand_out(request, form.instance, link))

    def _hand_out(self, request: HttpRequest, invitation: Invitation, link: str) -> None:
        """Send or show the link, which is not stored."""
        if invitations.send(invitation, link):
            text = _("The invitation was sent to %(email)s.") % {"email": invitation.email}
            messages.success(request, text)
            return
        if settings.SENDS_MAIL and invitation.email:
            messages.warning(request, _("The mail could not be sent. Send the link yourself."))
        text = _("Invitation link, shown only once. It works once, within %(days)s days:")
        text %= {"days": Invitation.LIFETIME.days}
        messages.success(request, format_html("{} <code>{}</code>", text, link))

    @admin.display(description=_lazy("Status"))
    def state(self, invitation: Invitation) -> SafeString | str:
        if invitation.accepted_at is not None:
            name = invitation.accepted_by or EMPTY
            return render_badge("quiet", _("Accepted by %(name)s") % {"name": name})
        if invitation.revoked_at is not None:
            return render_badge("quiet", _("Revoked"))
        if not invitation.is_open:
            return render_badge("quiet", _("Expired"))
        return render_badge("good", _("Open"))

    @admin.display(description=_lazy("Groups"))
    def joins(self, invitation: Invitation) -> str:
        return ", ".join(group.name for group in invitation.groups.all()) or EMPTY

    @admin.action(description=_lazy("Revoke selected invitations"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Invitation]) -> None:
        actor = cast(Member, request.user)
        count = sum(invitations.revoke(invitation, by=actor) for invitation in queryset)
        text = ngettext("Revoked %(number)s invitation.", "Revoked %(number)s invitations.", count)
        messages.success(request, text % {"number": count})
