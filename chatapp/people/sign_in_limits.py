"""Limits on sign-ins. Django-axes counts failures by name and address, by address, and by known
browser.

A stranger behind the same address could lock a person's name there. So a browser in which the
person has signed in keeps a signed cookie, and its failures count by themselves (OWASP, "Slow
Down Online Guessing Attacks with Device Cookies").
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt, AccessFailureLog
from django.conf import settings
from django.db.models import Count, Max, OuterRef, Q, Subquery, Sum
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from chatapp.models import Member

COOKIE = "known_browser"
COOKIE_SECONDS = 365 * 24 * 3600
# What access tokens are called in the counts. A name in the form never begins with a space.
BEARER_NAME = " token "
# How long failed sign-ins are kept for admins. The counts that lock are deleted after a minute.
FAILURES_KEPT = timedelta(days=1)
MOST_NAMES = 1_000


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

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: Any = None, **kwargs: Any
    ) -> None:
        was_locked = getattr(request, "axes_locked_out", False)
        super().user_login_failed(sender, credentials, request, **kwargs)
        # Failures while sign-in pauses are not counted: nobody's password was checked.
        if request is not None and not was_locked:
            _keep_failure(str(credentials.get("username", "")), request)

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


def _keep_failure(name: str, request: Any) -> None:
    """Keep a failed sign-in for admins. A name that nobody has may be a password in the wrong
    field, so it is not stored."""
    if name.startswith(BEARER_NAME):
        return
    is_known = Member.objects.filter(username=name).exists()
    AccessFailureLog.objects.create(
        username=name if is_known else "", ip_address=request.axes_ip_address
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The sign-ins of the last day that failed for a member, or for all names that nobody has:
    those have no `person`."""

    name: str
    person: int | None
    number: int
    latest: datetime


def list_failures() -> list[Failures]:
    """Return who failed to sign in, the most often first."""
    since = timezone.now() - FAILURES_KEPT
    rows = AccessFailureLog.objects.filter(attempt_time__gte=since).order_by().values("username")
    person = Subquery(Member.objects.filter(username=OuterRef("username")).values("pk")[:1])
    counted = rows.annotate(number=Count("pk"), latest=Max("attempt_time"), person=person)
    return [
        Failures(
            name=row["username"], person=row["person"], number=row["number"], latest=row["latest"]
        )
        for row in counted.order_by("-number", "username")[:MOST_NAMES]
    ]


def delete_old_failures() -> None:
    before = timezone.now() - FAILURES_KEPT
    AccessFailureLog.objects.filter(attempt_time__lt=before).delete()
