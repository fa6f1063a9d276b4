"""Authentication of programs: an access token in the Authorization header, and nothing else.

Sessions are ignored here, so that no other site can act through a browser, and the views need no
CSRF token.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import wraps
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.csrf import csrf_exempt

from chatapp.api import access_tokens
from chatapp.models import AccessToken, DirectoryToken
from chatapp.people.sign_in_limits import BEARER_NAME
from chatapp.server.database import release_connection
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.telemetry import log_ids

QUERY_NAMES = ("access_token", "token", "api_key", "apikey", "key", "authorization", "bearer")
CREATE_TOKEN = gettext_lazy(
    "Create a token under “Access tokens” and send it as “Authorization: Bearer cs_…”."
)

Token = TypeVar("Token", AccessToken, DirectoryToken)
View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


@dataclass(slots=True, kw_only=True)
class Problem(Exception):
    """A refused request of a program: `message` for a person, `field` is the wrong argument."""

    status: int
    kind: str
    message: str
    hint: str = ""
    field: str = ""
    headers: dict[str, str] = dataclass_field(default_factory=dict)

    @property
    def value(self) -> dict[str, Any]:
        return {
            "error": {
                "kind": self.kind,
                "message": self.message,
                "hint": self.hint,
                "field": self.field,
            }
        }

    @property
    def answer(self) -> JsonResponse:
        return JsonResponse(self.value, status=self.status, headers=self.headers)


class ProgramRequest(HttpRequest):
    """A request of a program. It acts for `token.person`."""

    token: AccessToken


def render_problem(problem: Problem) -> HttpResponse:
    return problem.answer


def for_programs(
    *scopes: str,
    methods: tuple[str, ...],
    refusal: Callable[[Problem], HttpResponse] = render_problem,
) -> Callable[[View], View]:
    """Allow programs whose token has one of these scopes. `refusal` renders a Problem."""

    def decorate(
        view: View,
    ) -> View:
        @csrf_exempt
        @wraps(view)
        async def guarded(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                request.token = await sync_to_async(_admit_view)(request, *scopes)
                check_method(request, methods)
                response: HttpResponseBase = await view(request, *args, **kwargs)
            except Problem as problem:
                response = refusal(problem)
            add_never_cache_headers(response)
            return response

        return guarded

    return decorate


def check_method(request: HttpRequest, methods: tuple[str, ...]) -> None:
    """Raises Problem."""
    if request.method not in methods:
        allowed = ", ".join(methods)
        raise Problem(
            status=405,
            kind="method",
            message=_("This method is not allowed. Use %(methods)s.") % {"methods": allowed},
            headers={"Allow": allowed},
        )


def open_token(request: HttpRequest, find: Callable[[str], Token | None]) -> Token:
    """Return the token of this request, which `find` finds by its text. Raises Problem.

    A wrong secret for an existing token is counted like a wrong password, by token and address;
    after too many, the right secret is refused too. Text that names no token stores no row, so that
    it cannot fill the database.
    """
    text = _read_token(request)
    token = find(text)
    if token is None:
        raise _build_unknown_token()
    credentials = {"username": f"{BEARER_NAME}{token.prefix}"}
    if not AxesProxyHandler.is_allowed(request, credentials):
        raise _build_locked()
    if not token.is_opened_by(text):
        raise _count_failure(request, credentials)
    return token


def admit(request: HttpRequest, *scopes: str) -> AccessToken:
    """Return the active token of this request if it has one of these scopes. Raises Problem."""
    token = open_token(request, AccessToken.find_by_text)
    _check_token(token, scopes)
    log_ids.note_person(token.person_id)
    check_rate("api", str(token.person_id), settings.API_REQUESTS_PER_MINUTE)
    access_tokens.note_use(token)
    return token


def _admit_view(request: HttpRequest, *scopes: str) -> AccessToken:
    """Admit a program, and hold no connection while its view waits for a person or a model."""
    try:
        return admit(request, *scopes)
    finally:
        release_connection()


def _read_token(request: HttpRequest) -> str:
    """Return the token text. A token in the URL ends up in logs, histories and referrers, so it is
    refused even if it is right. Raises Problem."""
    if any(name.lower() in QUERY_NAMES for name in request.GET):
        raise Problem(
            status=400,
            kind="token_in_address",
            message=_("A token in the URL can be read by others, so it is refused."),
            hint=f"{_('If the token is real, revoke it.')} {CREATE_TOKEN}",
        )
    scheme, _space, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise _build_unauthorised(
            "token_missing", _("An access token is required."), challenge="Bearer"
        )
    return text.strip()


def _check_token(token: AccessToken, scopes: tuple[str, ...]) -> None:
    if token.has_ended or not token.person.is_active:
        raise _build_unauthorised("token_ended", _("This token has expired or was revoked."))
    if not set(scopes) & set(token.scopes):
        needed = ", ".join(f"“{scope}”" for scope in scopes)
        challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
        raise Problem(
            status=403,
            kind="scope",
            message=ngettext(
                "This token needs the scope %(scopes)s.",
                "This token needs one of these scopes: %(scopes)s.",
                len(scopes),
            )
            % {"scopes": needed},
            hint=_("Create a token with the scope."),
            headers={"WWW-Authenticate": challenge},
        )


def check_rate(kind: str, who: str, per_minute: int) -> None:
    """Raises Problem after too many requests of one sender within a minute."""
    try:
        count_request(kind, who, per_minute)
    except TooManyRequests as error:
        raise Problem(
            status=429,
            kind="too_many_requests",
            message=_("You sent too many requests within a minute."),
            hint=error.hint,
            headers={"Retry-After": str(error.wait_seconds)},
        ) from None


def _count_failure(request: Any, credentials: dict[str, str]) -> Problem:
    user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    if request.axes_locked_out:
        # Otherwise the middleware of django-axes would answer with a page.
        request.axes_locked_out = False
        return _build_locked()
    return _build_unknown_token()


def _build_unknown_token() -> Problem:
    return _build_unauthorised("token_unknown", _("This token is not known."))


def _build_unauthorised(
    kind: str, message: str, challenge: str = 'Bearer error="invalid_token"'
) -> Problem:
    headers = {"WWW-Authenticate": challenge}
    return Problem(status=401, kind=kind, message=message, hint=str(CREATE_TOKEN), headers=headers)


def _build_locked() -> Problem:
    return Problem(
        status=429,
        kind="too_many_tries",
        message=_("Too many attempts with a wrong token."),
        hint=_("Wait a minute."),
        headers={"Retry-After": str(int(settings.AXES_COOLOFF_TIME.total_seconds()))},
    )
