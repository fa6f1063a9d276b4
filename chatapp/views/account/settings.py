"""The settings page of a person: profile, appearance, security, sessions and data."""

import tempfile
from typing import Any
from urllib.parse import urlsplit

from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django import forms
from django.conf import settings as django_settings
from django.contrib.auth import logout
from django.db import transaction
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.accounts import personal_data, sessions
from chatapp.accounts.entries import name_provider
from chatapp.accounts.second_factor import check_session, count_recovery_codes
from chatapp.accounts.ways_in import find_password_keeper
from chatapp.background.jobs import delete_closed_account
from chatapp.models import Member
from chatapp.people.factor_policy import needs_second_factor
from chatapp.people.refused import Refused
from chatapp.server.address import base_url
from chatapp.server.time_zones import list_zones
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from chatapp.views.downloads import stream_file

from .notification_choices import describe_choices
from .provider_choices import list_choices

Type = Authenticator.Type


def list_time_zones() -> list[tuple[str, Any]]:
    """Return the choices by region, that of the server first."""
    default = _("Same as the server (%(zone)s)") % {"zone": django_settings.TIME_ZONE}
    regions: dict[str, list[tuple[str, str]]] = {}
    for name in list_zones():
        region, _slash, place = name.partition("/")
        regions.setdefault(region, []).append((name, (place or name).replace("_", " ")))
    utc = regions.pop("UTC")
    return [("", default), *utc, *regions.items()]


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]  # generic to the type checker only
    time_zone = forms.ChoiceField(
        label=gettext_lazy("Time zone"),
        required=False,
        choices=list_time_zones,
        error_messages={"invalid_choice": gettext_lazy("Choose one of the time zones.")},
    )

    class Meta:
        model = Member
        fields = ("first_name", "last_name", "email", "time_zone")
        labels = {
            "first_name": gettext_lazy("First name"),
            "last_name": gettext_lazy("Last name"),
            "email": gettext_lazy("Email"),
        }
        widgets = {
            "first_name": forms.TextInput(attrs={"autocomplete": "given-name", "dir": "auto"}),
            "last_name": forms.TextInput(attrs={"autocomplete": "family-name", "dir": "auto"}),
            "email": forms.EmailInput(attrs={"autocomplete": "email"}),
        }


class AppearanceForm(forms.Form):
    theme = forms.ChoiceField(
        label=gettext_lazy("Theme"),
        required=False,
        widget=forms.RadioSelect,
        choices=[("", gettext_lazy("Same as your device")), *Member.Theme.choices],
    )
    language = forms.ChoiceField(
        label=gettext_lazy("Language"),
        required=False,
        choices=lambda: [("", _("Same as your browser")), *django_settings.LANGUAGES],
    )


@for_members("GET", "HEAD")
def settings(request: MemberRequest) -> HttpResponse:
    return render_page(request)


@for_members("POST")
def save_profile(request: MemberRequest) -> HttpResponse:
    """Save name and address. An address that the person typed lets no provider in."""
    old_email = request.user.email
    form = ProfileForm(request.POST, instance=Member.objects.get(pk=request.user.pk))
    if not form.is_valid():
        return render_page(request, profile=form, status=422)
    member = form.save(commit=False)
    if member.email != old_email:
        member.is_email_self_given = True
    member.save(update_fields=[*ProfileForm.Meta.fields, "is_email_self_given"])
    return redirect("settings")


@for_members("POST")
def save_appearance(request: MemberRequest) -> HttpResponse:
    form = AppearanceForm(request.POST)
    if not form.is_valid():
        return render_page(request, appearance=form, status=422)
    # The palette sends the theme alone, from any page.
    chosen = {name: value for name, value in form.cleaned_data.items() if name in request.POST}
    Member.objects.filter(pk=request.user.pk).update(**chosen)
    for name, value in chosen.items():
        setattr(request.user, name, value)
    return redirect(_choose_way_back(request))


def _choose_way_back(request: MemberRequest) -> str:
    """Return the page of ours on which a form was sent, or the settings. The address of a refused
    form of the settings takes only POST."""
    page, home = request.headers.get("Referer", ""), reverse("settings")
    is_ours = url_has_allowed_host_and_scheme(page, {request.get_host()}, request.is_secure())
    return page if is_ours and not urlsplit(page).path.startswith(home) else home


@for_members("POST")
def end_session(request: MemberRequest, session_id: int) -> HttpResponse:
    """Sign out one device. One that is gone already needs no more."""
    if not sessions.end_session(request.user, session_id):
        raise Http404
    return redirect("settings")


@for_members("POST")
def end_other_sessions(request: MemberRequest) -> HttpResponse:
    sessions.end_other_sessions(request.user, request.session.session_key)
    return redirect("settings")


@for_members("GET", "HEAD")
def second_factor(request: MemberRequest) -> HttpResponse:
    """Ask for a second factor where one is required and none is set up."""
    if check_session(request):
        return redirect("settings")
    return render(request, "mfa/required.html")


@for_members("POST")
def download_data(request: MemberRequest) -> HttpResponseBase:
    raise_if_reauthentication_required(request, app="chatapp")
    # All files of a person may be more than fits into memory.
    archive = tempfile.TemporaryFile()  # noqa: SIM115  closed once it is sent
    try:
        personal_data.write_archive(request.user, archive, base_url())
    except BaseException:
        archive.close()
        raise
    archive.seek(0)
    name = f"countersign-{request.user.username}-{timezone.localdate():%Y-%m-%d}.zip"
    return stream_file(archive, "application/zip", name)


@for_members("GET", "HEAD", "POST")
def delete_account(request: MemberRequest) -> HttpResponse:
    """Explain what is deleted; a POST with the username deletes it."""
    raise_if_reauthentication_required(request, app="chatapp")
    problem, status = "", 200
    if request.method == "POST":
        try:
            if request.POST.get("username") != request.user.username:
                raise Refused(_("Enter your username exactly as it is shown."))
            with transaction.atomic():
                personal_data.close_account(request.user)
                # Repeats what follows, should this process stop before its end.
                delete_closed_account.enqueue(request.user.pk)
            personal_data.delete_rows(request.user)
        except Refused as refusal:
            problem, status = refusal.sentence, refusal.status
        else:
            logout(request)
            return render(request, "sign_in/account_deleted.html")
    context = {"problem": problem, **build_sidebar_context(request.user, "")}
    return render(request, "account/delete.html", context, status=status)


def render_page(
    request: MemberRequest,
    profile: ProfileForm | None = None,
    appearance: AppearanceForm | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the page, with a form or a problem of its notifications that was just sent."""
    person = request.user
    chosen = {"theme": person.theme, "language": person.language}
    context = {
        "profile": profile or ProfileForm(instance=person),
        "appearance": appearance or AppearanceForm(initial=chosen),
        "has_passwords": django_settings.PASSWORD_SIGN_IN,
        "password_keeper": find_password_keeper(person),
        "devices": sessions.list_devices(person, request.session.session_key),
        "must_have_factor": needs_second_factor(person),
        **_describe_factors(person),
        **_describe_providers(request),
        **describe_choices(request, problem),
        **build_sidebar_context(person, ""),
    }
    return render(request, "account/settings.html", context, status=status)


def _describe_factors(person: Member) -> dict[str, Any]:
    factors = list(Authenticator.objects.filter(user=person).order_by("created_at"))
    codes = next((each for each in factors if each.type == Type.RECOVERY_CODES), None)
    return {
        "passkeys": [each for each in factors if each.type == Type.WEBAUTHN],
        "app": next((each for each in factors if each.type == Type.TOTP), None),
        "codes_left": count_recovery_codes(codes) if codes else None,
    }


def _describe_providers(request: MemberRequest) -> dict[str, Any]:
    rows = SocialAccount.objects.filter(user=request.user).order_by("pk")
    accounts = [(row, name_provider(row.provider), _name_account(row)) for row in rows]
    known = {row.provider for row in rows}
    choices = list_choices(request, "/settings/", connects=True)
    return {
        "accounts": accounts,
        "connectable": [choice for choice in choices if choice.id not in known],
    }


def _name_account(account: SocialAccount) -> str:
    """Return what the provider calls this person, best known name first."""
    said = account.extra_data
    return str(said.get("email") or said.get("login") or said.get("name") or account.uid)
