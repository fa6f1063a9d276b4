"""The admin of members: add, deactivate, and make sign-in links."""

from datetime import datetime
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.password_validation import validate_password
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from chatapp.accounts.second_factor import remove_second_factor
from chatapp.accounts.sign_in_adapter import did_just_sign_in
from chatapp.admin.policy.tested_saves import TestedSavesMixin
from chatapp.audit import audit_log
from chatapp.models import Member
from chatapp.people.sign_in_links import make_sign_in_link
from chatapp.views.account.sign_in import redirect_to_confirm
from mcpconfig.admin.filters import HeadingMixin

IS_ADMIN = _lazy("Can change all settings, and read all chats and decisions.")


class NewMemberForm(ModelForm):
    """A new member. Without a password, the member signs in by a one-time link."""

    password = forms.CharField(
        label=_lazy("Password"),
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_lazy(
            "If empty, you get a sign-in link to send to the member, who then sets a password."
        ),
    )

    class Meta:
        model = Member
        fields = ["username", "first_name", "last_name", "is_staff"]
        labels = {"is_staff": _lazy("Admin")}
        help_texts = {"is_staff": IS_ADMIN}

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if password:
            validate_password(password, self.instance)
        return password

    def save(self, commit: bool = True) -> Member:
        self.instance.set_password(self.cleaned_data["password"] or None)
        member: Member = super().save(commit)
        return member


class MemberForm(UserChangeForm):
    class Meta:
        model = Member
        fields = "__all__"
        labels = NewMemberForm.Meta.labels
        help_texts = NewMemberForm.Meta.help_texts


class StatusFilter(admin.SimpleListFilter):
    """A filter of members by whether they can sign in."""

    title = _lazy("status")
    parameter_name = "is_active__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("1", _("Active")), ("0", _("Inactive"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Member]) -> QuerySet[Member]:
        return queryset.filter(is_active=self.value() == "1") if self.value() else queryset


class AdminFilter(HeadingMixin, admin.BooleanFieldListFilter):
    heading = _lazy("admin")


@admin.register(Member)
class MemberAdmin(TestedSavesMixin, UserAdmin):
    """Admins are superusers, so there are no permissions to assign one by one."""

    add_form = NewMemberForm
    form = MemberForm
    add_form_template = None
    add_fieldsets = (
        (None, {"fields": ["username", "first_name", "last_name", "password", "is_staff"]}),
    )
    fieldsets = (
        (None, {"fields": ["username", "password"]}),
        (_lazy("Personal details"), {"fields": ["first_name", "last_name", "email"]}),
        (_lazy("Rights"), {"fields": ["is_active", "is_staff", "groups"]}),
        (_lazy("Dates"), {"fields": ["last_login", "date_joined"]}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = (
        "username",
        "display_name",
        "is_admin",
        "is_active",
        "has_password",
        "last_sign_in",
    )
    list_filter = (StatusFilter, ("is_staff", AdminFilter))
    autocomplete_fields = ("groups",)
    search_fields = ("username", "first_name", "last_name", "email")
    actions = ("make_sign_in_links", "remove_second_factors")

    @admin.display(description=_lazy("Admin"), boolean=True, ordering="is_staff")
    def is_admin(self, member: Member) -> bool:
        return member.is_staff

    @admin.display(description=_lazy("Last sign-in"), ordering="last_login")
    def last_sign_in(self, member: Member) -> datetime | None:
        return member.last_login

    @admin.display(description=_lazy("Password set"), boolean=True)
    def has_password(self, member: Member) -> bool:
        return member.has_usable_password()

    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: bool) -> None:
        obj.is_superuser = obj.is_staff
        if "email" in form.changed_data:
            obj.is_email_self_given = False
        super().save_model(request, obj, form, change)
        if not change and not obj.has_usable_password():
            self.show_link(request, obj)

    @admin.action(
        description=_lazy("Remove second factors of selected members"), permissions=["change"]
    )
    def remove_second_factors(
        self, request: HttpRequest, queryset: QuerySet[Member]
    ) -> HttpResponse | None:
        """Let in people who lost theirs. Their sessions end. It needs a recent sign-in: an admin
        could remove their own as well."""
        if not did_just_sign_in(request):
            return redirect_to_confirm(request.get_full_path())
        actor = audit_log.Who.of(cast(Member, request.user))
        count = sum(bool(remove_second_factor(member, actor)) for member in queryset)
        text = ngettext(
            "Removed the second factor of %(number)s member.",
            "Removed the second factors of %(number)s members.",
            count,
        )
        messages.success(request, text % {"number": count})
        return None

    @admin.action(
        description=_lazy("Create sign-in links for selected members"), permissions=["change"]
    )
    def make_sign_in_links(self, request: HttpRequest, queryset: QuerySet[Member]) -> None:
        for member in queryset.filter(is_active=True):
            self.show_link(request, member)

    def show_link(self, request: HttpRequest, member: Member) -> None:
        """Show a new sign-in link. It cannot be shown again, because only its hash is stored."""
        text = _("Sign-in link for %(name)s, shown only once. It works once, within a day:")
        link = make_sign_in_link(member)
        message = format_html("{} <code>{}</code>", text % {"name": member.username}, link)
        messages.success(request, message)
