"""Access to the pages of the chat: signed-in members only, by the methods that a view names."""

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.contrib.auth.views import redirect_to_login
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from chatapp.models import Member
from chatapp.server.address import find_home

Row = TypeVar("Row", bound=Model)
# For an answer whose address has a hash of its content. A browser then asks for it once.
KEPT = "private, max-age=31536000, immutable"


class MemberRequest(HttpRequest):
    """A request of a signed-in member."""

    user: Member
    htmx: HtmxDetails


def for_members(
    *methods: str,
) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """Allow signed-in members and these methods only, and forbid caching of the response, unless
    the view says KEPT."""

    def decorate(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @require_http_methods(methods)
        @wraps(view)
        def guarded(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return send_to_sign_in(request)
            response = view(request, *args, **kwargs)
            forbid_keeping(response)
            return response

        return guarded

    return decorate


def forbid_keeping(response: HttpResponseBase) -> None:
    """Forbid browsers and caches to keep an answer, unless its view said KEPT."""
    if response.headers.get("Cache-Control") != KEPT:
        add_never_cache_headers(response)


def read_id(text: str) -> uuid.UUID | None:
    """Return the id of a field or an address, or None for other text."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def find_row(rows: QuerySet[Row], text: str) -> Row | None:
    """Return the one of these rows with this id, or None, also for text that is no id."""
    row_id = read_id(text)
    return rows.filter(pk=row_id).first() if row_id else None


def is_from_a_page(request: HttpRequest) -> bool:
    """Return whether a page in a browser sent the request. Programs send neither header."""
    return "Sec-Fetch-Site" in request.headers or "Origin" in request.headers


def add_live_address(request: HttpRequest) -> dict[str, str]:
    """Context processor: the address where pages are live, if this one was opened at another."""
    return {"live_at": find_home(request)}


def add_theme(request: HttpRequest) -> dict[str, str]:
    """Context processor: the theme that the person chose. It loads nobody."""
    user = request.__dict__.get("_cached_user")
    return {"theme": user.theme if isinstance(user, Member) else ""}


def send_to_sign_in(request: Any) -> HttpResponse:
    """Redirect to the sign-in page. htmx would follow a plain redirect and swap the sign-in page
    into a part of the page."""
    if request.htmx:
        return HttpResponseClientRedirect(
            redirect_to_login(request.htmx.current_url_abs_path or "/").url
        )
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")
