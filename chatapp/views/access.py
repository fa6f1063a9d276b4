"""Who may open a page of the chat: a signed-in member, by the methods that the page names."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from chatapp.links import home_of
from chatapp.models import Member


class MemberRequest(HttpRequest):
    """A request by somebody who is signed in."""

    user: Member
    htmx: HtmxDetails


def for_members(
    *methods: str,
) -> Callable[[Callable[..., HttpResponse]], Callable[..., HttpResponseBase]]:
    """Let signed-in members in, by these methods only; no answer is kept by any cache."""

    def decorate(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
        @require_http_methods(methods)
        @wraps(view)
        def guarded(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            response = view(request, *args, **kwargs)
            add_never_cache_headers(response)
            return response

        return guarded

    return decorate


def is_from_a_page(request: HttpRequest) -> bool:
    """Whether a browser sent this for a page. Programs say neither."""
    return "Sec-Fetch-Site" in request.headers or "Origin" in request.headers


def place_of_page(request: HttpRequest) -> dict[str, str]:
    """For every template: where pages are live, if this one was opened at another address."""
    return {"live_at": home_of(request)}


def _to_sign_in(request: Any) -> HttpResponse:
    """To the door. htmx would follow a redirect and swap the door into a corner of the page."""
    if request.htmx:
        return HttpResponseClientRedirect(
            redirect_to_login(request.htmx.current_url_abs_path or "/").url
        )
    return redirect_to_login(request.get_full_path() if request.method == "GET" else "/")
