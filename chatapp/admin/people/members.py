"""The admin of members: add, change and deactivate them, give rights, and make sign-in links."""

from datetime import datetime
from functools import partial
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from chatapp.accounts import entries, invitations
from chatapp.accounts.directory import note_admins_choice
from chatapp.accounts.second_factor import remove_second_factor
from chatapp.accounts.sign_in_adapter import did_just_sign_in
from chatapp.admin.badges import EMPTY
from chatapp.admin.policy.tested_saves import TestedSavesMixin
from chatapp.audit import audit_log
from chatapp.models import Conversation, Member
from chatapp.people import admin_rights
from chatapp.people.admin_rights import has_right, lock_last_admin, may_give, may_manage
from chatapp.people.sign_in_links import make_sign_in_link
from chatapp.projects import owners as project_owners
from chatapp.views.account.sign_in import redirect_to_confirm
from mcpconfig.admin.filters import HeadingMixin
from mcpconfig.values.numbers import read_number

from . import off_board_page, person_page, person_things

MOST_GROUPS = 100
# The groups of a member in the list.
MOST_NAMED = 3
FULL_ADMIN = _lazy("Full admin")
FULL_ADMIN_HELP = _lazy("Has every right. To read another member’s chat, a reason is still needed.")
LAST_ADMIN = _lazy("This is the last full admin. Make another member a full admin first.")


class RightsWidget(forms.CheckboxSelectMultiple):
    """A box for each right. Those that the acting admin does not have are locked."""

    locked: frozenset[str] = frozenset()

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["attrs"]["disabled"] = str(value) in self.locked
        return option


class RightsForm(ModelForm):
    """The rights of a member. `admin` is who gives and takes them. To give one, or to activate an
    admin again, the admin must have signed in recently: a stolen session could make itself an admin
    that stays."""

    admin: Member
    is_recent: bool
    rights = forms.MultipleChoiceField(
        label=_lazy("What may this admin do?"),
        required=False,
        choices=[(right.name, right.title) for right in admin_rights.RIGHTS.values()],
        widget=RightsWidget,
        help_text=_lazy("You can give and take the rights that you have yourself."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "rights" in self.fields:
            field = self.fields["rights"]
            choices = [
                (right.name, format_html("{}<small>{}</small>", right.title, right.help))
                for right in admin_rights.RIGHTS.values()
            ]
            cast(Any, field).choices = choices
            cast(Any, field.widget).locked = frozenset(
                name for name in admin_rights.RIGHTS if not has_right(self.admin, name)
            )
        if "is_superuser" in self.fields and not self.admin.is_superuser:
            self.fields["is_superuser"].disabled = True

    def clean_rights(self) -> list[str]:
        rights: list[str] = self.cleaned_data["rights"]
        changed = set(rights) ^ set(self.instance.rights)
        missing = [name for name in admin_rights.RIGHTS if name in changed]
        missing = [name for name in missing if not has_right(self.admin, name)]
        if missing:
            titles = ", ".join(str(admin_rights.RIGHTS[name].title) for name in missing)
            text = _("You don’t have this right, so you can’t give or take it: %(rights)s.")
            raise forms.ValidationError(text % {"rights": titles})
        return rights

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        is_active = values.get("is_active", True)
        had = self.instance if self.instance.is_active or not is_active else Member()
        gains = set(values.get("rights", ())) - set(had.rights)
        if values.get("is_superuser") and not had.is_superuser:
            gains.add("is_superuser")
        if gains and not self.is_recent:
            self.add_error(None, _ask_to_confirm())
        stays = values.get("is_superuser") and values.get("is_active", True)
        if self.instance.pk and not stays and lock_last_admin(self.instance):
            self.add_error(None, LAST_ADMIN)
        becomes_admin = values.get("rights") and not self.instance.is_staff and self.instance.pk
        groups = values.get("groups")
        given = Q(pk=None) if groups is None else Q(group__in=groups)
        if becomes_admin:
            given |= Q(user=self.instance)
        if not may_give(self.admin, given):
            text = _("One of these groups has rights that you don’t have.")
            self.add_error("groups" if groups is not None else None, text)
        return values


class NewMemberForm(RightsForm):
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
        fields = ["username", "first_name", "last_name", "is_superuser", "rights"]
        labels = {"is_superuser": FULL_ADMIN}
        help_texts = {"is_superuser": FULL_ADMIN_HELP}

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if password:
            validate_password(password, self.instance)
        return password

    def save(self, commit: bool = True) -> Member:
        self.instance.set_password(self.cleaned_data["password"] or None)
        member: Member = super().save(commit)
        return member


class MemberForm(RightsForm, UserChangeForm):
    class Meta:
        model = Member
        fields = (
            *("username", "password", "first_name", "last_name", "email"),
            *("is_active", "groups", "is_superuser", "rights"),
        )
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


class GroupFilter(admin.SimpleListFilter):
    """A filter by group, which the page of a large group leads to."""

    title = _lazy("group")
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        groups = Group.objects.order_by("name").values_list("pk", "name")[:MOST_GROUPS]
        return [(str(pk), name) for pk, name in groups]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Member]) -> QuerySet[Member]:
        group = read_number(self.value() or "")
        return queryset if group is None else queryset.filter(groups=group)


class MemberList(ChangeList):
    """Leads to the page of the person, not to the form."""

    def url_for_result(self, result: Any) -> str:
        return reverse("admin:chatapp_member_person", args=[result.pk])


@admin.register(Member)
class MemberAdmin(TestedSavesMixin, UserAdmin):
    """An admin manages members who have no right that the admin does not have."""

    add_form = NewMemberForm
    form = MemberForm
    add_form_template = None
    add_fieldsets = (
        (None, {"fields": ["username", "first_name", "last_name", "password"]}),
        (_lazy("Admin"), {"fields": ["is_superuser", "rights"]}),
    )
    fieldsets = (
        (None, {"fields": ["username", "password"]}),
        (_lazy("Personal details"), {"fields": ["first_name", "last_name", "email"]}),
        (_lazy("Access"), {"fields": ["is_active", "groups"]}),
        (_lazy("Admin"), {"fields": ["is_superuser", "rights"]}),
        (_lazy("Dates"), {"fields": ["last_login", "date_joined"]}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = (
        "username",
        "display_name",
        "group_names",
        "admin_rights",
        "is_active",
        "has_password",
        "last_sign_in",
    )
    list_filter = (StatusFilter, ("is_staff", AdminFilter), GroupFilter)
    autocomplete_fields = ("groups",)
    search_fields = ("username", "first_name", "last_name", "email")
    actions = ("make_sign_in_links", "remove_second_factors")

    def get_urls(self) -> list[Any]:
        show_person = require_safe(partial(person_page.show_person, self))
        show_things = require_http_methods(["GET", "HEAD", "POST"])(
            partial(person_things.show_things, self)
        )
        show_off_boarding = require_http_methods(["GET", "HEAD", "POST"])(
            partial(off_board_page.show_off_boarding, self)
        )
        own = [
            path(
                "<int:pk>/person/",
                self.admin_site.admin_view(show_person),
                name="chatapp_member_person",
            ),
            path(
                "<int:pk>/person/<slug:kind>/",
                self.admin_site.admin_view(show_things),
                name="chatapp_member_things",
            ),
            path(
                "<int:pk>/off-board/",
                self.admin_site.admin_view(show_off_boarding),
                name="chatapp_member_off_board",
            ),
        ]
        return own + super().get_urls()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return MemberList

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form: Any = super().get_form(request, obj, change=change, **kwargs)
        form.admin = request.user
        form.is_recent = did_just_sign_in(request)
        return form

    def has_change_permission(self, request: HttpRequest, obj: Member | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_manage(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Member | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_manage(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Protect the last full admin. Nobody deletes chats here, so what belongs to them is not
        collected, which would take minutes with many of them."""
        if Conversation.objects.filter(owner__in=objs).exists():
            name = str(Conversation._meta.verbose_name)
            return [str(member) for member in objs], {}, {name}, []
        objects, counts, missing, protected = super().get_deleted_objects(objs, request)
        admins = Member.objects.filter(is_active=True, is_superuser=True)
        if not admins.exclude(pk__in=[member.pk for member in objs]).exists():
            protected = [*protected, str(LAST_ADMIN)]
        return objects, counts, missing, protected

    @admin.display(description=_lazy("Admin"), ordering="is_staff")
    def admin_rights(self, member: Member) -> str:
        return ", ".join(admin_rights.describe_rights(member)) or EMPTY

    def get_queryset(self, request: HttpRequest) -> QuerySet[Member]:
        members: QuerySet[Member] = super().get_queryset(request)
        # Those of one page, in one statement.
        return members.prefetch_related(Prefetch("groups", Group.objects.order_by("name")))

    @admin.display(description=_lazy("Groups"))
    def group_names(self, member: Member) -> str:
        names = [group.name for group in member.groups.all()]
        if len(names) <= MOST_NAMED:
            return ", ".join(names) or EMPTY
        shown = {"names": ", ".join(names[:MOST_NAMED]), "count": len(names) - MOST_NAMED}
        return _("%(names)s and %(count)s more") % shown

    @admin.display(description=_lazy("Last sign-in"), ordering="last_login")
    def last_sign_in(self, member: Member) -> datetime | None:
        return member.last_login

    @admin.display(description=_lazy("Password set"), boolean=True)
    def has_password(self, member: Member) -> bool:
        return member.has_usable_password()

    def save_model(self, request: HttpRequest, obj: Member, form: Any, change: bool) -> None:
        # An admin whose permissions somebody stored by hand has no rights here, and stays one.
        before = form.initial
        by_hand = obj.is_staff and not before.get("rights") and not before.get("is_superuser")
        obj.is_staff = obj.is_superuser or bool(obj.rights) or by_hand
        if "email" in form.changed_data:
            obj.is_email_self_given = False
        super().save_model(request, obj, form, change)
        if "is_active" in form.changed_data:
            note_admins_choice(obj)
        if change and not obj.is_active and "is_active" in form.changed_data:
            project_owners.hand_over_all(obj, by=cast(Member, request.user))
        if change and not obj.has_perm("chatapp.add_invitation"):
            invitations.revoke_all(obj, by=cast(Member, request.user))
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
        members = self.choose_managed(request, queryset)
        count = sum(bool(remove_second_factor(member, actor)) for member in members)
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
    def make_sign_in_links(
        self, request: HttpRequest, queryset: QuerySet[Member]
    ) -> HttpResponse | None:
        """It needs a recent sign-in: an admin could make a link for themselves."""
        if not did_just_sign_in(request):
            return redirect_to_confirm(request.get_full_path())
        for member in self.choose_managed(request, queryset.filter(is_active=True)):
            self.show_link(request, member)
        return None

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> Any:
        """It needs a recent sign-in: an admin could set their own password without the old one."""
        may_change = self.has_change_permission(request, self.get_object(request, unquote(id)))
        if may_change and not did_just_sign_in(request):
            return redirect_to_confirm(request.get_full_path())
        return super().user_change_password(request, id, form_url)

    def choose_managed(self, request: HttpRequest, chosen: QuerySet[Member]) -> list[Member]:
        """Return those of the chosen members whom this admin manages, and name the others."""
        members = list(chosen)
        managed = [member for member in members if _may_manage(request, member)]
        if others := [member.username for member in members if member not in managed]:
            text = _("Left out, because they have rights that you don’t have: %(names)s.")
            messages.error(request, text % {"names": ", ".join(others)})
        return managed

    def show_link(self, request: HttpRequest, member: Member) -> None:
        """Show a new sign-in link. It cannot be shown again, because only its hash is stored."""
        text = _("Sign-in link for %(name)s, shown only once. It works once, within a day:")
        with transaction.atomic():
            link = make_sign_in_link(member)
            entries.write_sign_in_link(member, audit_log.Who.of(cast(Member, request.user)))
        message = format_html("{} <code>{}</code>", text % {"name": member.username}, link)
        messages.success(request, message)


def _ask_to_confirm() -> SafeString:
    """Return what an admin reads whose sign-in is too long ago. The page to confirm opens beside
    the form, which keeps what was entered."""
    text = _("To give rights, confirm that it is you, and then save again.")
    page = reverse("account_reauthenticate")
    return format_html('{} <a href="{}" target="_blank">{}</a>', text, page, _("Confirm"))


def _may_manage(request: HttpRequest, member: Member | None) -> bool:
    return member is None or may_manage(cast(Member, request.user), member)
