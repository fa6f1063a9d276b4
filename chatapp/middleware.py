"""Middleware: headers, languages, limits of forms, cross-site requests, first passwords, actors of
the log."""

from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY
from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponseBase, UnreadablePostError
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.csrf import csrf_failure
from django_htmx.http import HttpResponseClientRedirect

from .accounts.second_factor import check_session
from .accounts.sessions import note_activity
from .accounts.sign_in_adapter import signed_in_without_password
from .accounts.ways_in import find_password_keeper
from .audit import audit_log
from .conversations import intake
from .models import Member
from .people.password_hasher import TooManySignIns
from .server import languages
from .server.address import get_client_address
from .server.database import release_connection
from .server.time_zones import reading_in
from .telemetry import log_ids
from .views import health, metrics
from .views.access import forbid_keeping
from .views.account import confirm, sign_in
from .views.account import settings as account_settings
from .views.chat import messages, versions

# Paths that only programs read.
FOR_PROGRAMS = ("/api/", "/v1/", "/scim/", "/metrics", "/healthz", "/readyz")
# Browser features that no page uses. Writing to the clipboard is the only one that is used.
UNUSED_FEATURES = (
    "accelerometer",
    "autoplay",
    "camera",
    "clipboard-read",
    "display-capture",
    "encrypted-media",
    "fullscreen",
    "geolocation",
    "gyroscope",
    "hid",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "picture-in-picture",
    "screen-wake-lock",
    "serial",
    "usb",
    "xr-spatial-tracking",
)


# What the frame of a diagram loads. The frame has no origin, so any other page may load it too.
OPEN_FILES = ("vendor/mermaid-", "js/diagram.", "css/diagram.")


class IsolationHeaders(MiddlewareMixin):
    """Adds the headers that Django has no setting for. It is the first middleware, so that every
    answer has them, including files, refusals and errors."""

    HEADERS = MappingProxyType(
        {
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": ", ".join(f"{feature}=()" for feature in UNUSED_FEATURES),
        }
    )

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if request.path.removeprefix(settings.STATIC_URL).startswith(OPEN_FILES):
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        for name, value in self.HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class ReleaseConnection(MiddlewareMixin):
    """Lets other requests use the connection to the database as soon as the answer is built. Django
    would keep it until the browser has read the answer."""

    def process_response(
        self, _request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        release_connection()
        return response


class NoStore(MiddlewareMixin):
    """Forbids to keep answers to a browser with a session, whatever view or error gave them. Only
    pictures of assistants may be kept.

    After the sign-out, neither the browser nor a cache between has a page of the person. Files of
    this project are the same for all and are answered before.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            forbid_keeping(response)
        return response


@sync_and_async_middleware
def use_language(get_response: Any) -> Callable[[HttpRequest], Any]:
    """Answer in the language of the browser, errors included; programs are answered in English."""

    def choose(request: HttpRequest) -> str | None:
        """Return the language of a browser, or None for a program."""
        is_of_program = request.path_info.startswith(FOR_PROGRAMS)
        return None if is_of_program else languages.find_language(request)

    def finish(request: HttpRequest, answer: HttpResponseBase, language: str) -> HttpResponseBase:
        patch_vary_headers(answer, ("Accept-Language",))
        answer.headers.setdefault("Content-Language", language)
        _keep_language(request, answer, language)
        return answer

    def run_sync(request: HttpRequest) -> HttpResponseBase:
        language = choose(request)
        with languages.speaking(language):
            answer: HttpResponseBase = get_response(request)
            return answer if language is None else finish(request, answer, language)

    async def run_async(request: HttpRequest) -> HttpResponseBase:
        language = choose(request)
        with languages.speaking(language):
            answer: HttpResponseBase = await get_response(request)
            if language is None:
                return answer
            return await sync_to_async(finish)(request, answer, language)

    return run_async if iscoroutinefunction(get_response) else run_sync


def _keep_language(request: HttpRequest, answer: HttpResponseBase, language: str) -> None:
    """Repeat the choice of the person in the cookie, and remember what a browser asks for without
    one. The person is not loaded for that."""
    user = request.__dict__.get("user")
    person = request.__dict__.get("_cached_user") if isinstance(user, SimpleLazyObject) else user
    if not isinstance(person, Member):
        return
    languages.keep_choice(request, answer, person.language)
    # Parts of a page that ask for themselves would let two browsers overwrite each other for ever.
    is_part = request.headers.get("HX-Request") == "true"
    is_page = request.method == "GET" and answer.status_code == HTTPStatus.OK and not is_part
    if is_page and not person.language and language != person.last_language:
        # A page is shown although the database refuses to write.
        with suppress(DatabaseError):
            Member.objects.filter(pk=person.pk).update(last_language=language)


class FormTextLimit(MiddlewareMixin):
    """Answers a form with too much text with a message beside the box, so that the typed text
    stays. It runs before the CSRF check, whose token is in the form."""

    WORDS = gettext_lazy(
        "The text is too long to send at once. Go back, shorten it, and try again."
    )

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: tuple[Any, ...],
        _kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        try:
            request.POST  # noqa: B018  parses the form
        except UnreadablePostError:
            return None
        except RequestDataTooBig:
            is_message = view in (messages.send, versions.edit)
            sentence = intake.explain_too_long() if is_message else str(self.WORDS)
            return self._answer(request, sentence)
        return None

    def _answer(self, request: HttpRequest, sentence: str) -> HttpResponseBase:
        is_htmx = request.headers.get("HX-Request") == "true"
        template = "chat/_refusal.html" if is_htmx else "413.html"
        answer = render(request, template, {"sentence": sentence}, status=413)
        answer["HX-Retarget"] = "#composer-notice"
        return answer


class SameOriginOnly(MiddlewareMixin):
    """Refuses requests of a browser that change something but come from another site or from a
    frame.

    A second defence beside the CSRF token and the frame policy. Browsers send where a request comes
    from, and no page can change that. Programs, and browsers over plain HTTP, do not send it; their
    token and `Origin` are checked.
    """

    READING = ("GET", "HEAD", "OPTIONS", "TRACE")
    # Submitted forms and requests of scripts. Other destinations are frames and plug-ins.
    PLACES = ("document", "empty")

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: tuple[Any, ...],
        _kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if request.method in self.READING or getattr(view, "csrf_exempt", False):
            return None
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        is_ours = site == "same-origin" or request.headers.get("Origin") in settings.ALLOWED_ORIGINS
        if is_ours and request.headers.get("Sec-Fetch-Dest", "document") in self.PLACES:
            return None
        return csrf_failure(
            request, _("The request came from another site (%(site)s).") % {"site": site}
        )


@sync_and_async_middleware
def use_time_zone(get_response: Any) -> Callable[[HttpRequest], Any]:
    """Show times in the zone of the person. Programs and people who are not signed in have that of
    the server."""

    def find(request: HttpRequest) -> str:
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
        is_of_program = request.path_info.startswith(FOR_PROGRAMS)
        person = request.user if has_session and not is_of_program else None
        return person.time_zone if isinstance(person, Member) else ""

    def run_sync(request: HttpRequest) -> HttpResponseBase:
        with reading_in(find(request)):
            answer: HttpResponseBase = get_response(request)
        return answer

    async def run_async(request: HttpRequest) -> HttpResponseBase:
        with reading_in(await sync_to_async(find)(request)):
            answer: HttpResponseBase = await get_response(request)
        return answer

    return run_async if iscoroutinefunction(get_response) else run_sync


class PageFirst(MiddlewareMixin):
    """Redirects a signed-in person to a page until they have done what it is for. The OPEN views
    and names stay reachable."""

    OPEN: tuple[Callable[..., object], ...]
    OPEN_NAMES: frozenset[str]
    PAGE: str

    def is_done(self, request: HttpRequest, person: Member) -> bool:
        raise NotImplementedError

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: tuple[Any, ...],
        _kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        name = request.resolver_match.url_name if request.resolver_match else None
        if view in self.OPEN or name in self.OPEN_NAMES or not request.user.is_authenticated:
            return None
        if self.is_done(request, request.user):
            return None
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(reverse(self.PAGE))
        return redirect(self.PAGE)


class PasswordFirst(PageFirst):
    """Redirects a person without a password to the password page. Also answers the admin's forms
    while too many passwords are being hashed."""

    OPEN = (
        sign_in.set_password,
        sign_in.sign_out,
        sign_in.sign_in,
        sign_in.sign_in_by_link,
        confirm.confirm,
        health.liveness,
        health.readiness,
        metrics.show_metrics,
    )
    # The ways to confirm who one is.
    OPEN_NAMES = frozenset(
        (
            *("mfa_reauthenticate", "mfa_reauthenticate_webauthn"),
            *("provider-start", "provider-callback", "saml-acs", "saml-finish"),
        )
    )
    PAGE = "set-password"

    def is_done(self, request: HttpRequest, person: Member) -> bool:
        log_ids.note_person(person.pk)
        return (
            not settings.PASSWORD_SIGN_IN
            or person.has_usable_password()
            or signed_in_without_password(request)
            or bool(find_password_keeper(person))
        )

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponseBase | None:
        return sign_in.answer_busy(request) if isinstance(exception, TooManySignIns) else None


class SecondFactorFirst(PageFirst):
    """Redirects a person who needs a second factor and has none to the page that sets one up."""

    OPEN = (*PasswordFirst.OPEN, account_settings.second_factor)
    OPEN_NAMES = PasswordFirst.OPEN_NAMES | {
        *("mfa_activate_totp", "mfa_add_webauthn", "mfa_view_recovery_codes"),
        "mfa_download_recovery_codes",
    }
    PAGE = "second-factor"

    def is_done(self, request: HttpRequest, person: Member) -> bool:
        return check_session(request)


class SessionTracking(MiddlewareMixin):
    """Stores when a browser was seen, at most every few minutes: a cookie says that it was, and
    costs no statement in between. It is signed for the session, because who uses a stolen session
    would rather not be seen."""

    COOKIE = "seen"
    SECONDS = 300

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        session = getattr(request, "session", None)
        if session is None or not session.accessed or not session.session_key:
            return response
        salt = f"{self.COOKIE} {session.session_key}"
        if request.get_signed_cookie(self.COOKIE, None, salt=salt, max_age=self.SECONDS):
            return response
        if AUTHENTICATION_METHODS_SESSION_KEY in session:
            # A page is shown although the database refuses to write.
            with suppress(DatabaseError):
                note_activity(session.session_key, get_client_address(request))
            response.set_signed_cookie(
                self.COOKIE,
                "1",
                salt=salt,
                max_age=self.SECONDS,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response


@sync_and_async_middleware
def set_log_actor(get_response: Any) -> Callable[[HttpRequest], Any]:
    """Record the person of a request as the actor of the changes that it makes."""

    def who(request: HttpRequest) -> Callable[[], audit_log.Who]:
        return lambda: audit_log.Who.of(request.user)

    def run_sync(request: HttpRequest) -> HttpResponseBase:
        with audit_log.acting_as(who(request)):
            answer: HttpResponseBase = get_response(request)
        return answer

    async def run_async(request: HttpRequest) -> HttpResponseBase:
        with audit_log.acting_as(who(request)):
            answer: HttpResponseBase = await get_response(request)
        return answer

    return run_async if iscoroutinefunction(get_response) else run_sync
