"""What django-allauth asks about signing in, whatever way a person takes."""

import time
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from chatapp.models import LogEntry, Member
from chatapp.people.sign_in_limits import remember_browser
from chatapp.server.address import get_client_address, is_own_path

from . import entries

BACKEND = "django.contrib.auth.backends.ModelBackend"
OWN_STAGES = {
    "allauth.mfa.stages.AuthenticateStage": "chatapp.accounts.second_factor.SecondFactorStage"
}


class SignInAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # django-allauth has no types
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Admins and providers make members, never a form."""
        return False

    def is_safe_url(self, url: str | None) -> bool:
        return bool(url) and is_own_path(str(url))

    def get_client_ip(self, request: HttpRequest) -> str:
        """The server has replaced the address by the one that a trusted proxy named."""
        return get_client_address(request)

    def login(self, request: HttpRequest, user: Any) -> None:
        """The same backend for each way, so that a session says nothing about the way."""
        user.backend = BACKEND
        super().login(request, user)

    def respond_user_inactive(self, request: HttpRequest, user: Member) -> HttpResponse:
        entries.write(LogEntry.Kind.SIGN_IN_REFUSED, user, reason="inactive")
        answer: HttpResponse = super().respond_user_inactive(request, user)
        return answer

    def post_login(self, request: HttpRequest, user: Member, **facts: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **facts)
        remember_browser(request, response, user)
        return response

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: Any = None,
        extra_tags: str = "",
        message: str | None = None,
    ) -> None:
        """Show errors only. The settings page shows what was done."""
        if message and level >= messages.ERROR:
            messages.add_message(request, level, message)

    def send_notification_mail(self, *_args: Any, **_kwargs: Any) -> None:
        """The activity log has these events."""

    def get_login_stages(self) -> list[str]:
        paths: list[str] = super().get_login_stages()
        return [OWN_STAGES.get(path, path) for path in paths]

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Our page is the first. It also helps people who can only sign in by a provider."""
        found: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        page = {"id": "confirm", "description": "", "url": reverse("account_reauthenticate")}
        return [page, *(method for method in found if method["url"] != page["url"])]

    def is_reauthentication_required(self, *, app: str, **facts: Any) -> bool:
        """A sign-in a few minutes ago counts."""
        return not did_just_sign_in(self.request)


def did_just_sign_in(request: HttpRequest) -> bool:
    """Whether the person of the session proved who they are within RECENT_SIGN_IN_SECONDS."""
    records = get_authentication_records(request, request.user)
    newest = max((record["at"] for record in records), default=0.0)
    return time.time() - newest < settings.RECENT_SIGN_IN_SECONDS


def signed_in_without_password(request: HttpRequest) -> bool:
    """Whether a provider or a passkey let this session in, so that no password is missed."""
    records = get_authentication_records(request, request.user)
    return any(
        record["method"] == "socialaccount" or record.get("passwordless") for record in records
    )
