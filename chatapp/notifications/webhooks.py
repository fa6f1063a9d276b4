"""Posts to webhooks: the form that each program reads, and the outcome that admins see.

A post names the person and what waits, and has a link; it has no value, title or text of a chat.
"""

import base64
import hashlib
import hmac
import html
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.models import Notification, NotificationPreference, Turn, Webhook
from chatapp.rendering.pages.inbox import KIND_TEXTS
from chatapp.server.address import base_url
from chatapp.server.database import in_database
from chatapp.server.languages import speaking
from mcpconfig.secrets.encryption import DecryptionError

from . import due_notifications, links, outbound
from .outbound import NotSent, Outgoing

SECRET_PREFIX = "whsec_"  # noqa: S105  the prefix of the standard, not a secret
JSON_HEADERS = {"Content-Type": "application/json"}
Format = Webhook.Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What a webhook is told. `id` is the same at each attempt."""

    id: str
    event: str
    text: str
    link: str
    person: str = ""
    expires_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A webhook with its secrets."""

    address: str
    secret: str
    room: str


# --- sending -----------------------------------------------------------------------------------
async def post_notification(notification_id: uuid.UUID) -> None:
    """Post one notification, unless it was answered or read meanwhile. Raises NotSent."""
    found = await in_database(_load_notification, notification_id)
    if found is None:
        return
    webhook, post = found
    await _post(webhook, post)
    await in_database(_mark_sent, notification_id)


async def post_test(webhook: Webhook) -> None:
    """Post a message that says that the webhook works. Raises NotSent."""
    with speaking(settings.LANGUAGE_CODE):
        text = _("Countersign can post here.")
    await _post(webhook, Post(id=str(uuid.uuid4()), event="test", text=text, link=base_url()))


async def _post(webhook: Webhook, post: Post) -> None:
    try:
        try:
            request = build_request(webhook, post)
            await outbound.send(request, settings.WEBHOOK_PRIVATE_HOSTS)
        except (outbound.BadAddress, DecryptionError) as error:
            raise NotSent(str(error)) from error
    except NotSent as error:
        await in_database(_note_failure, webhook.pk, str(error))
        raise
    await in_database(_note_success, webhook.pk)


def _load_notification(notification_id: uuid.UUID) -> tuple[Webhook, Post] | None:
    related = ("webhook", "conversation__owner", "turn", "call__turn__conversation__owner")
    notification = (
        Notification.objects.filter(pk=notification_id, sent_at=None)
        .select_related(*related)
        .first()
    )
    if notification is None or notification.webhook is None or not _is_wanted(notification):
        return None
    with speaking(settings.LANGUAGE_CODE):
        post = (
            _describe_call(notification) if notification.call_id else _describe_turn(notification)
        )
    return (notification.webhook, post) if post else None


def _is_wanted(notification: Notification) -> bool:
    """Whether the webhook is still told about this person. Second approvals name nobody."""
    webhook, owner = notification.webhook, notification.conversation.owner
    if webhook is None or not webhook.is_enabled:
        return False
    if notification.thing.startswith("second"):
        return True
    opted_out = not NotificationPreference.of(owner).uses_webhooks
    return owner.is_active and not opted_out and webhook in due_notifications.list_webhooks(owner)


def _describe_call(notification: Notification) -> Post | None:
    call, kind = notification.call, notification.thing.partition(" ")[0]
    if call is None or not due_notifications.is_open(call, kind):
        return None
    heading = str(KIND_TEXTS[kind].heading)  # type: ignore[index]  # it began with a kind
    # Those who sign second are asked together, and the requester is not named to their channel.
    name = "" if kind == "second" else notification.conversation.owner.display_name
    return Post(
        id=str(notification.pk),
        event=f"waiting.{kind}",
        text=f"{heading}: {name}" if name else heading,
        link=links.build_link(notification),
        person=name,
        expires_at=_format_expiry(notification),
    )


def _describe_turn(notification: Notification) -> Post | None:
    chat, turn = notification.conversation, notification.turn
    if turn is None or not chat.has_news or chat.deleted_at:
        return None
    name, has_failed = chat.owner.display_name, turn.state == Turn.State.FAILED
    text = (
        _("An answer for %(name)s failed") if has_failed else _("An answer for %(name)s is ready")
    )
    return Post(
        id=str(notification.pk),
        event="answer.failed" if has_failed else "answer.finished",
        text=text % {"name": name},
        link=links.build_link(notification),
        person=name,
        expires_at=_format_expiry(notification),
    )


def _format_expiry(notification: Notification) -> str:
    return (timezone.now() + links.LIFETIME - timedelta(seconds=1)).isoformat(timespec="seconds")


def _mark_sent(notification_id: uuid.UUID) -> None:
    Notification.objects.filter(pk=notification_id).update(sent_at=Now())


def _note_success(webhook_id: int) -> None:
    Webhook.objects.filter(pk=webhook_id).update(sent_at=Now(), failure="")


def _note_failure(webhook_id: int, sentence: str) -> None:
    Webhook.objects.filter(pk=webhook_id).update(failed_at=Now(), failure=sentence[:300])


# --- formats -----------------------------------------------------------------------------------
def build_request(webhook: Webhook, post: Post) -> Outgoing:
    """Return the request that this webhook's program reads. Raises DecryptionError."""
    target = Target(address=webhook.read_address(), secret=webhook.read_secret(), room=webhook.room)
    return BUILDERS[Format(webhook.format)](target, post)


def _build_slack(target: Target, post: Post) -> Outgoing:
    text = f"{_escape_slack(post.text)}\n<{post.link}|{_escape_slack(_get_label())}>"
    return _build_json(target.address, {"text": text})


def _build_teams(target: Target, post: Post) -> Outgoing:
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "TextBlock", "text": _escape_markdown(post.text), "wrap": True}],
        "actions": [{"type": "Action.OpenUrl", "title": _get_label(), "url": post.link}],
    }
    kind = "application/vnd.microsoft.card.adaptive"
    attachment = {"contentType": kind, "contentUrl": None, "content": card}
    return _build_json(target.address, {"type": "message", "attachments": [attachment]})


def _build_matrix(target: Target, post: Post) -> Outgoing:
    """The id of the transaction makes the server ignore a second attempt that it has already."""
    room, transaction_id = quote(target.room, safe=""), quote(post.id, safe="")
    label, link = html.escape(_get_label()), html.escape(post.link)
    place = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{transaction_id}"
    message = {
        "msgtype": "m.text",
        "body": f"{post.text}\n{post.link}",
        # Without this, a name with @room in it notifies all.
        "m.mentions": {},
        "format": "org.matrix.custom.html",
        "formatted_body": f'{html.escape(post.text)}<br><a href="{link}">{label}</a>',
    }
    return Outgoing(
        method="PUT",
        url=target.address.rstrip("/") + place,
        headers={**JSON_HEADERS, "Authorization": f"Bearer {target.secret}"},
        body=json.dumps(message).encode(),
    )


def _build_signed_json(target: Target, post: Post) -> Outgoing:
    """The headers are those of Standard Webhooks, so that its libraries check the signature."""
    body = json.dumps(
        {
            "type": post.event,
            "id": post.id,
            "text": post.text,
            "person": post.person,
            "link": post.link,
            "link_expires_at": post.expires_at,
        }
    ).encode()
    sent_at = str(int(time.time()))
    return Outgoing(
        url=target.address,
        headers={
            **JSON_HEADERS,
            "webhook-id": post.id,
            "webhook-timestamp": sent_at,
            "webhook-signature": sign(target.secret, post.id, sent_at, body),
        },
        body=body,
    )


def sign(secret: str, message_id: str, sent_at: str, body: bytes) -> str:
    """Return the value of the signature header: HMAC-SHA256 of the id, the time and the body."""
    signed = b".".join((message_id.encode(), sent_at.encode(), body))
    digest = hmac.new(decode_secret(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def decode_secret(secret: str) -> bytes:
    """Return the bytes of a signing secret: base64 after the prefix, else its text. Raises
    ValueError."""
    if secret.startswith(SECRET_PREFIX):
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    return secret.encode()


BUILDERS: Mapping[Webhook.Format, Callable[[Target, Post], Outgoing]] = {
    Format.SLACK: _build_slack,
    Format.TEAMS: _build_teams,
    Format.MATRIX: _build_matrix,
    Format.JSON: _build_signed_json,
}


def _build_json(address: str, body: dict[str, Any]) -> Outgoing:
    return Outgoing(url=address, headers=JSON_HEADERS, body=json.dumps(body).encode())


def _get_label() -> str:
    with speaking(settings.LANGUAGE_CODE):
        return _("Open in Countersign")


def _escape_slack(text: str) -> str:
    """Escape what Slack reads as a link or a mention, as a member may choose their name."""
    return html.escape(text, quote=False)


def _escape_markdown(text: str) -> str:
    """Escape what a card reads as a link or as emphasis."""
    return "".join(f"\\{each}" if each in r"\[]()*_`#<>!" else each for each in text)
