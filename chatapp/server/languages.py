"""Which language is used where.

A request and a socket have the language of their browser: its cookie, which repeats the choice that
is stored with the account, or what the browser asks for. What is made without a browser, such as a
notice of the engine or a mail, has the language of the person who reads it. The model and the audit
log read English.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils import translation

from .browser_choices import keep_in_browser

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

P = ParamSpec("P")
R = TypeVar("R")

ENGLISH = "en"


# --- browsers ------------------------------------------------------------------------------
def find_language(request: HttpRequest) -> str:
    """Return the language of a browser's request. It reads no row."""
    return translation.get_language_from_request(request)


def find_socket_language(scope: Mapping[str, Any]) -> str:
    """Return the language of a browser's socket, whose handshake has the same headers."""
    request = HttpRequest()
    request.COOKIES = scope["cookies"]
    accepted = [value for name, value in scope["headers"] if name == b"accept-language"]
    request.META["HTTP_ACCEPT_LANGUAGE"] = b",".join(accepted).decode("latin-1")
    return find_language(request)


def keep_choice(request: HttpRequest, response: HttpResponseBase, choice: str) -> None:
    """Repeat the choice of an account in the browser's cookie, if that has another."""
    if request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "") == choice:
        return
    if not choice:
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, samesite="Lax")
        return
    keep_in_browser(response, settings.LANGUAGE_COOKIE_NAME, choice)


# --- without a browser ---------------------------------------------------------------------
def choose_known(*languages: str) -> str:
    """Return the first of these languages that this server has, or English."""
    known = {code for code, _name in settings.LANGUAGES}
    return next((language for language in languages if language in known), ENGLISH)


def speaking(language: str | None) -> translation.override:
    """Use a language inside the block."""
    return translation.override(language or ENGLISH)


def in_english(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose sentences are stored for the model and the log, in whatever
    language the person who caused it reads."""

    if iscoroutinefunction(work):

        @wraps(work)
        async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            with speaking(ENGLISH):
                return await work(*args, **kwargs)

        return run_async  # type: ignore[return-value]  # the same kind of function

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with speaking(ENGLISH):
            return work(*args, **kwargs)

    return run


def write_in_english(sentence: "StrOrPromise") -> str:
    """Return a lazy sentence in English, to be stored."""
    with speaking(ENGLISH):
        return str(sentence)
