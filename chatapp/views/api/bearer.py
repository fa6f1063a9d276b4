"""How a program gets in: by an access token in the Authorization header, and by nothing else.

No session counts here, so no page elsewhere can act through somebody's browser, and the views need
no CSRF token.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from dataclasses import field as made
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import add_never_cache_headers
from django.views.decorators.csrf import csrf_exempt

from chatapp.models import AccessToken
from chatapp.turns import access_tokens

LOCKED_SECONDS = 900
IN_THE_QUERY = ("access_token", "token", "api_key", "apikey", "key", "authorization", "bearer")
MAKE_ONE = "Make a token under “Access tokens” and send it as “Authorization: Bearer cs_…”."

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


@dataclass(slots=True, kw_only=True)
class Problem(Exception):
    """Why a program's request is refused: `message` for a person, `field` is what is at fault."""

    status: int
    kind: str
    message: str
    hint: str = ""
    field: str = ""
    headers: dict[str, str] = made(default_factory=dict)

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
    """A request by a program; `token` is what let it in, `token.person` for whom it acts."""

    token: AccessToken


def answer_of(problem: Problem) -> HttpResponse:
    return problem.answer


def for_programs(
    *scopes: str,
    methods: tuple[str, ...],
    refusal: Callable[[Problem], HttpResponse] = answer_of,
) -> Callable[[View], View]:
    """Let programs in whose token has one of these scopes. `refusal` makes a problem an answer."""

    def decorate(
        view: View,
    ) -> View:
        @csrf_exempt
        @wraps(view)
        async def guarded(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                request.token = await sync_to_async(admitted)(request, *scopes)
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
            status=405, kind="method", message=f"Use {allowed}.", headers={"Allow": allowed}
        )


def admitted(request: HttpRequest, *scopes: str) -> AccessToken:
    """The live token that this request shows, with one of these scopes. Raises Problem.

    A wrong secret for a token that exists is counted as a wrong password is, by token and address;
    where there are too many, the right one does not help either. Texts that name no token of ours
    leave no row behind, so that nobody fills the database with them.
    """
    text = _shown(request)
    token = AccessToken.named_by(text)
    if token is None:
        raise _unknown()
    credentials = {"username": f"token {token.prefix}"}
    if not AxesProxyHandler.is_allowed(request, credentials):
        raise _locked()
    if not token.is_opened_by(text):
        raise _counted(request, credentials)
    _check(token, scopes)
    access_tokens.note_use(token)
    return token


def _shown(request: HttpRequest) -> str:
    """A token in an address ends in logs, histories and referrers: it is refused, even if right."""
    if any(name.lower() in IN_THE_QUERY for name in request.GET):
        raise Problem(
            status=400,
            kind="token_in_address",
            message="The token must not stand in the address, where others can read it.",
            hint=f"Revoke it if it did. {MAKE_ONE}",
        )
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise _turned_away("token_missing", "This needs an access token.", challenge="Bearer")
    return text.strip()


def _check(token: AccessToken, scopes: tuple[str, ...]) -> None:
    if token.has_ended or not token.person.is_active:
        raise _turned_away("token_ended", "This token has expired or was revoked.")
    if not set(scopes) & set(token.scopes):
        needed = " or ".join(f"“{scope}”" for scope in scopes)
        challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
        raise Problem(
            status=403,
            kind="scope",
            message=f"This token may not do that: it needs the scope {needed}.",
            hint="Make a token with this scope.",
            headers={"WWW-Authenticate": challenge},
        )


def _counted(request: Any, credentials: dict[str, str]) -> Problem:
    user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    if request.axes_locked_out:
        # Else the middleware of axes would answer, with a page.
        request.axes_locked_out = False
        return _locked()
    return _unknown()


def _unknown() -> Problem:
    return _turned_away("token_unknown", "Nobody has a token of this text.")


def _turned_away(
    kind: str, message: str, challenge: str = 'Bearer error="invalid_token"'
) -> Problem:
    headers = {"WWW-Authenticate": challenge}
    return Problem(status=401, kind=kind, message=message, hint=MAKE_ONE, headers=headers)


def _locked() -> Problem:
    return Problem(
        status=429,
        kind="too_many_tries",
        message="A wrong text was sent for this token too often.",
        hint="Wait a quarter of an hour.",
        headers={"Retry-After": str(LOCKED_SECONDS)},
    )
