"""What the settings page shows about notifications."""

from typing import Any

from django.conf import settings

from chatapp.approvals import reminders
from chatapp.models import NotificationPreference
from chatapp.notifications import devices, due_notifications, push_keys
from chatapp.views.access import MemberRequest


def describe_choices(request: MemberRequest, problem: str = "") -> dict[str, Any]:
    """Return the context of the section: choices, devices, webhooks, and a problem to show."""
    person = request.user
    pushes = settings.PUSH_NOTIFICATIONS
    listed = devices.list_devices(person, request.session.session_key) if pushes else []
    webhooks = due_notifications.list_webhooks(person)
    return {
        "notifications": {
            "chosen": NotificationPreference.of(person),
            "pushes": pushes,
            "push_key": push_keys.get_newest().public_key if pushes else "",
            "devices": listed,
            "is_on_here": any(device.is_current for device in listed),
            "sends_mail": settings.SENDS_MAIL,
            "has_mail": settings.SENDS_MAIL and reminders.is_on(person),
            "is_given_up": settings.SENDS_MAIL and reminders.is_given_up(person),
            "webhooks": ", ".join(webhook.name for webhook in webhooks),
            "problem": problem,
            "is_tested": request.GET.get("tested") == "yes",
        }
    }
