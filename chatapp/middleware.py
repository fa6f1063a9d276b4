"""What every answer carries, and the page that a member without a password must pass first."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponseBase, UnreadablePostError
from django.shortcuts import redirect, render
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin
from django.views.csrf import csrf_failure

from .turns import intake, log
from .views import health, messages, sign_in

# All that a page of ours never asks a browser for; copying is the one thing it does.
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
    "publickey-credentials-get",
    "screen-wake-lock",
    "serial",
    "usb",
    "xr-spatial-tracking",
)


class IsolationHeaders(MiddlewareMixin):
    """The headers that Django has no setting for. First of all middleware, so that no answer goes
    without them: not a file, not a refusal, not an error."""

    HEADERS = MappingProxyType(
        {
            "Cross-Origin-Resource-Policy": "same-origin",
            "Permissions-Policy": ", ".join(f"{feature}=()" for feature in UNUSED_FEATURES),
        }
    )

    def process_response(
        self, _request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        for name, value in self.HEADERS.items():
            response.headers.setdefault(name, value)
        return response


class TextWithinBounds(MiddlewareMixin):
    """Answers a form with more text than is read in one piece, in words and beside the box, so that
    what was typed stays there. It stands before the check of the token, which is in the form."""

    WORDS = "This is more text than can be sent at once. Go back, shorten it, and try again."

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
            request.POST  # noqa: B018  it is read here
        except UnreadablePostError:
            return None
        except RequestDataTooBig:
            sentence = intake.too_long() if view is messages.send else self.WORDS
            return self._answer(request, sentence)
        return None

    def _answer(self, request: HttpRequest, sentence: str) -> HttpResponseBase:
        is_htmx = request.headers.get("HX-Request") == "true"
        template = "chat/_refusal.html" if is_htmx else "413.html"
        answer = render(request, template, {"sentence": sentence}, status=413)
        answer["HX-Retarget"] = "#composer-notice"
        return answer


class OwnPagesOnly(MiddlewareMixin):
    """What a browser sends to change something comes from a page of ours that is in no frame (A35).

    It stands beside the CSRF token and the frame policy, so that either may fail. Browsers say
    where a request comes from and nothing on a page can change that; programs, and browsers over
    plain HTTP, do not say it, and are judged by their token and their `Origin`.
    """

    READING = ("GET", "HEAD", "OPTIONS", "TRACE")
    # A form that is sent, and a script that fetches; the others are frames and plug-ins.
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
        return csrf_failure(request, f"It was sent from elsewhere ({site}).")


class PasswordFirst(MiddlewareMixin):
    """Sends a person who came by a link to the password page; the OPEN views stay reachable."""

    OPEN = (
        sign_in.set_password,
        sign_in.sign_out,
        sign_in.sign_in,
        sign_in.by_link,
        health.alive,
        health.ready,
    )

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: tuple[Any, ...],
        _kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if view in self.OPEN or not request.user.is_authenticated:
            return None
        return None if request.user.has_usable_password() else redirect("set-password")


@sync_and_async_middleware
def named_in_the_log(get_response: Any) -> Callable[[HttpRequest], Any]:
    """What a page changes is logged as the act of whoever is at it."""

    def who(request: HttpRequest) -> Callable[[], log.Who]:
        return lambda: log.Who.of(request.user)

    def at_once(request: HttpRequest) -> HttpResponseBase:
        with log.acting_as(who(request)):
            answer: HttpResponseBase = get_response(request)
        return answer

    async def awaited(request: HttpRequest) -> HttpResponseBase:
        with log.acting_as(who(request)):
            answer: HttpResponseBase = await get_response(request)
        return answer

    return awaited if iscoroutinefunction(get_response) else at_once
