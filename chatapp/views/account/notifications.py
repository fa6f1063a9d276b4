"""Notifications: what a person chose to be told, their devices, open pages, and the links
in notifications."""

import uuid

from django.conf import settings as django_settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from chatapp.accounts.sessions import describe_device, is_phone
from chatapp.approvals import reminders
from chatapp.background.jobs import push_notifications
from chatapp.models import PushDevice
from chatapp.notifications import devices, due_notifications, links, preferences
from chatapp.people.refused import Refused
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.approvals.inbox import build_inbox_context

from .notification_choices import notifies_from_pages, switch_page_notifications
from .settings import render_page

PLACE = "#notifications"
TESTS_PER_MINUTE = 10


@for_members("POST")
def save(request: MemberRequest) -> HttpResponse:
    """Store the choices that the page has shown."""
    sent, person = request.POST, request.user
    chosen = {}
    if django_settings.PUSH_NOTIFICATIONS or notifies_from_pages(request, person):
        chosen = {name: name in sent for name in ("pushes_waiting", "pushes_answers")}
        chosen["shows_titles"] = "hides_titles" not in sent
    if due_notifications.list_webhooks(person):
        chosen["uses_webhooks"] = "uses_webhooks" in sent
    preferences.save(person, chosen)
    if django_settings.SENDS_MAIL and person.email:
        wants_mail = "mails_waiting" in sent
        if wants_mail != reminders.is_on(person):
            reminders.switch_mail(person, is_on=wants_mail)
    return _return_to_page()


@for_members("POST")
def add_device(request: MemberRequest) -> HttpResponse:
    """Turn push messages on for the browser that sent this."""
    subscription = request.POST.get("subscription", "")
    # Without JavaScript, the button is told what it needs.
    if subscription and not django_settings.PUSH_NOTIFICATIONS:
        raise Http404
    agent = request.headers.get("User-Agent", "")
    try:
        count_request("push devices", str(request.user.pk), TESTS_PER_MINUTE)
        devices.add(
            request.user,
            request.session.session_key or "",
            describe_device(agent),
            subscription,
            is_phone=is_phone(agent),
        )
    except TooManyRequests as error:
        return render_page(request, problem=str(error), status=429)
    except Refused as refused:
        return render_page(request, problem=refused.sentence, status=refused.status)
    response = _return_to_page()
    # One kind is enough in one browser.
    switch_page_notifications(request, response, is_on=False)
    return response


@for_members("POST")
def notify_from_pages(request: MemberRequest) -> HttpResponse:
    """Turn the notifications of open pages on in the browser that sent this, or off."""
    response = _return_to_page()
    switch_page_notifications(request, response, is_on="off" not in request.POST)
    return response


@for_members("POST")
def test_device(request: MemberRequest, device_id: uuid.UUID) -> HttpResponse:
    """Send a message to one device of this person."""
    if not PushDevice.objects.filter(person=request.user, pk=device_id).exists():
        raise Http404
    try:
        count_request("push tests", str(request.user.pk), TESTS_PER_MINUTE)
    except TooManyRequests as error:
        return render_page(request, problem=str(error), status=429)
    push_notifications.enqueue(str(device_id), [])
    return redirect(f"{reverse('settings')}?tested=yes{PLACE}")


@for_members("POST")
def remove_device(request: MemberRequest, device_id: uuid.UUID) -> HttpResponse:
    if not devices.remove(request.user, device_id):
        raise Http404
    return _return_to_page()


@for_members("GET")
def open_link(request: MemberRequest, token: str) -> HttpResponse:
    """Open the card or the chat that a notification is about. An expired link, or one of somebody
    else, leads to the person's own inbox."""
    try:
        return redirect(links.follow(request.user, token))
    except Refused as refused:
        context = build_inbox_context(request.user) | {"sentence": refused.sentence}
        return render(request, "chat/approvals.html", context, status=refused.status)


def _return_to_page() -> HttpResponse:
    return redirect(reverse("settings") + PLACE)
