"""Limits on sign-ins. Django-axes counts failures by name and address, by address, and by known
browser.

A stranger behind the same address could lock a person's name there. So a browser in which the
person has signed in keeps a signed cookie, and its failures count by themselves (OWASP, "Slow
Down Online Guessing Attacks with Device Cookies").
"""

import hashlib
import secrets
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Q, Sum
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from chatapp.models import Member

COOKIE = "known_browser"
COOKIE_SECONDS = 365 * 24 * 3600
# What access tokens are called in the counts. A name in the form never begins with a space.
BEARER_NAME = " token "


def remember_browser(request: HttpRequest, response: HttpResponseBase, member: Member) -> None:
    """Let this browser's failures for this person count by themselves from now on."""
    name = member.get_username()
    device = _get_device(request, name) or secrets.token_hex(8)
    response.set_signed_cookie(
        COOKIE,
        f"{device} {_digest(name)}",
        salt=COOKIE,
        max_age=COOKIE_SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def get_counted_name(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    """Return the name that failures are counted under: that of a known browser is its own."""
    given = credentials if credentials is not None else request.POST
    name = str(given.get("username", ""))
    device = _get_device(request, name)
    return f"{name} in {device}" if device else name


def _get_device(request: HttpRequest, name: str) -> str:
    known = request.get_signed_cookie(COOKIE, "", salt=COOKIE, max_age=COOKIE_SECONDS) or ""
    device, _, person = known.partition(" ")
    return device if person == _digest(name) else ""


def _digest(name: str) -> str:
    # A name may have letters that a cookie cannot carry.
    return hashlib.sha256(name.encode()).hexdigest()[:16]


class SignInLimits(AxesDatabaseHandler):  # type: ignore[misc]  # django-axes has no types
    """Also counts the failures of an address for all names, except in browsers that are known. A
    directory reads a name in capital letters as the same one, so these count together."""

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        failures: int = super().get_failures(request, credentials)
        name = str((credentials or {}).get("username", ""))
        if name.startswith(BEARER_NAME) or _get_device(request, name):
            return failures
        at_address = AccessAttempt.objects.filter(
            ip_address=request.axes_ip_address,
            attempt_time__gte=get_cool_off_threshold(request),
        ).exclude(username__startswith=BEARER_NAME)
        counts = at_address.aggregate(
            all=Sum("failures_since_start"),
            same=Sum("failures_since_start", filter=Q(username__iexact=name)),
        )
        failures = max(failures, counts["same"] or 0)
        if (counts["all"] or 0) < settings.SIGN_IN_ADDRESS_FAILURE_LIMIT:
            return failures
        return max(failures, settings.AXES_FAILURE_LIMIT)
