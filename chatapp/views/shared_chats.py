"""The pages behind a shared link: the chat to read, its files, and the copy of a reader.

They have no form but the one that makes the copy, and are not kept by caches, listed by search
engines or named in the `Referer` of links. A link that cannot be opened is answered like one that
never existed.
"""

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from chatapp.models import Attachment, Member
from chatapp.rendering.pages.shared_chat import render_messages
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.sharing import copies, openings, snapshots
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context
from chatapp.views.chat.results import (
    BYTES_HEADERS,
    build_bytes_response,
    build_file_response,
)

# A longer chat is shown in parts.
MESSAGES_AT_ONCE = 500
MAX_DIGITS = 9
PRIVATE_HEADERS = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow"}


def for_readers(
    view: Callable[..., HttpResponse],
) -> Callable[..., HttpResponseBase]:
    """Allow GET to everybody, with a limit on requests of people who are not signed in, and add the
    headers that keep the address of the page private."""

    @require_http_methods(("GET", "HEAD"))
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if not request.user.is_authenticated:
                _count_request(request, is_file="attachment_id" in kwargs)
            response = view(request, *args, **kwargs)
        except TooManyRequests as error:
            response = _render_busy(request, error)
        except Http404:
            context = {"path": request.path, "is_signed_in": request.user.is_authenticated}
            response = render(request, "shared/not_found.html", context, status=404)
        for name, value in PRIVATE_HEADERS.items():
            response.headers[name] = value
        add_never_cache_headers(response)
        return response

    return guarded


@for_readers
def shared_chat(request: HttpRequest, token: str) -> HttpResponse:
    """Show the chat, a long one from the message `from` on."""
    person = _get_person(request)
    link = openings.find_link(person, token)
    messages = snapshots.list_messages(link)
    first = _read_number(request.GET.get("from", ""))
    part = messages[first - 1 : first - 1 + MESSAGES_AT_ONCE]
    if not part:
        raise Http404("There is no such message.")
    if request.method == "GET":
        if first == 1:
            openings.count_opening(person, link)
        if person is not None:
            openings.note_reader(person, link)
    owner = link.conversation.owner
    context = {
        "link": link,
        "token": token,
        "title": link.title or _("New chat"),
        "owner": owner.display_name,
        "messages": render_messages(
            snapshots.describe_messages(link, part), token, owner.display_name
        ),
        "before": max(1, first - MESSAGES_AT_ONCE) if first > 1 else None,
        "after": first + len(part) if first + len(part) <= len(messages) else None,
        "is_signed_in": person is not None,
    }
    return render(request, "shared/chat.html", context)


@for_readers
def shared_file(request: HttpRequest, token: str, attachment_id: uuid.UUID) -> HttpResponse:
    """Return the bytes of a file that the link includes."""
    link = openings.find_link(_get_person(request), token)
    found = snapshots.find_file(link, attachment_id)
    save = "save" in request.GET
    return (
        build_file_response(request, found, save=save)
        if found.is_own_file
        else _build_resource(request, found)
    )


@for_members("GET", "HEAD", "POST")
def continue_chat(request: MemberRequest, token: str) -> HttpResponse:
    """Say what a copy of the chat will have; a POST makes it and opens it.

    The form has a page of its own: browsers send no origin from a page that sends no referrer, and
    a form without one is refused.
    """
    link = openings.find_link(request.user, token)
    problem = ""
    if request.method == "POST":
        try:
            count_request("copies", str(request.user.pk), settings.SHARED_COPIES_PER_MINUTE)
        except TooManyRequests as error:
            problem = " ".join([_("You copied too many chats within a minute."), error.hint])
        else:
            return redirect("conversation", copies.continue_chat(link, request.user).pk)
    context = {
        "link": link,
        "token": token,
        "title": link.title or _("New chat"),
        "owner": link.conversation.owner,
        "problem": problem,
        **build_sidebar_context(request.user, ""),
    }
    response = render(request, "shared/continue.html", context, status=429 if problem else 200)
    response.headers["X-Robots-Tag"] = PRIVATE_HEADERS["X-Robots-Tag"]
    return response


def _get_person(request: HttpRequest) -> Member | None:
    return request.user if isinstance(request.user, Member) else None


def _count_request(request: HttpRequest, *, is_file: bool) -> None:
    """Count a request of a person who is not signed in, by their address, before the token is
    looked at. Files have a limit of their own: one page may have many pictures."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    if is_file:
        count_request("shared files", address, settings.SHARED_FILES_PER_MINUTE)
    else:
        count_request("shared", address, settings.SHARED_REQUESTS_PER_MINUTE)


def _render_busy(request: HttpRequest, error: TooManyRequests) -> HttpResponse:
    response = render(request, "shared/busy.html", {"hint": error.hint}, status=429)
    response.headers["Retry-After"] = str(error.wait_seconds)
    return response


def _read_number(given: str) -> int:
    """Return the number of the first message to show, from 1 on."""
    is_number = given.isascii() and given.isdecimal() and len(given) <= MAX_DIGITS
    return max(1, int(given)) if is_number else 1


def _build_resource(request: HttpRequest, found: Attachment) -> HttpResponse:
    """Return what a service gave when the resource was read: its text, or else its first bytes."""
    texts = [str(each["text"]) for each in found.contents if each.get("text") is not None]
    if texts:
        text = "\n\n".join(texts)
        return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=BYTES_HEADERS)
    blobs = [each["blob"] for each in found.contents if each.get("blob")]
    return build_bytes_response(request, blobs[0] if blobs else None, save=False)
