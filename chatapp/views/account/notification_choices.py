"""What the settings page shows about notifications, and whether the open pages of a browser show
some."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from chatapp.approvals import reminders
from chatapp.models import Member, NotificationPreference
from chatapp.notifications import devices, due_notifications, push_keys
from chatapp.server.browser_choices import keep_in_browser
from chatapp.views.access import MemberRequest

# The id of the person for whom the open pages of this browser show notifications.
PAGES_COOKIE = "notify"


def describe_choices(request: MemberRequest, problem: str = "") -> dict[str, Any]:
    """Return the context of the section: choices, devices, webhooks, and a problem to show."""
    person = request.user
    pushes = settings.PUSH_NOTIFICATIONS
    listed = devices.list_devices(person, request.session.session_key) if pushes else []
    is_on_here = any(device.is_current for device in listed)
    is_on_pages = notifies_from_pages(request, person)
    webhooks = due_notifications.list_webhooks(person)
    return {
        "notifications": {
            "chosen": NotificationPreference.of(person),
            "pushes": pushes,
            "push_key": push_keys.get_newest().public_key if pushes else "",
            "devices": listed,
            "is_on_pages": is_on_pages,
            "notifies": pushes or is_on_pages,
            "may_turn_on": not is_on_here and (pushes or not is_on_pages),
            "sends_mail": settings.SENDS_MAIL,
            "has_mail": settings.SENDS_MAIL and reminders.is_on(person),
            "is_given_up": settings.SENDS_MAIL and reminders.is_given_up(person),
            "webhooks": ", ".join(webhook.name for webhook in webhooks),
            "problem": problem,
            "is_tested": request.GET.get("tested") == "yes",
        }
    }


def add_page_notifications(
    request: HttpRequest,
) -> dict[str, Callable[[], NotificationPreference]]:
    """Context processor: what the open pages of this browser tell the person, if they do. It loads
    nobody, and the choice only where a template asks for it."""
    user = request.__dict__.get("_cached_user")
    if not isinstance(user, Member) or not notifies_from_pages(request, user):
        return {}
    return {"page_notifications": lambda: NotificationPreference.of(user)}


def switch_page_notifications(
    request: MemberRequest, response: HttpResponse, *, is_on: bool
) -> None:
    """Keep in this browser whether its open pages show notifications to this person. The pages read
    the cookie too, so that all of them stop."""
    person = request.user
    if is_on:
        keep_in_browser(response, PAGES_COOKIE, str(person.pk), for_scripts=True)
    elif notifies_from_pages(request, person):
        response.delete_cookie(PAGES_COOKIE, samesite="Lax")


def notifies_from_pages(request: HttpRequest, person: Member) -> bool:
    return request.COOKIES.get(PAGES_COOKIE) == str(person.pk)
