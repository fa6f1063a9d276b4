"""The devices of people that get push messages: turned on in a browser, and off when its session
ends, when the person removes them, or when their push service no longer knows them."""

import hashlib
import json
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.db.models.signals import post_delete
from django.utils.translation import gettext as _

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import LogEntry, Member, PushDevice
from chatapp.people.refused import Refused
from mcpconfig.values import base64url

from . import outbound, push_keys

MAX_DEVICES = 10
MAX_SUBSCRIPTION_CHARACTERS = 4_000
SECRET_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a browser said: the address at its push service, its public key and a shared secret."""

    endpoint: str
    p256dh: str
    auth: str

    def to_json(self) -> str:
        keys = {"p256dh": self.p256dh, "auth": self.auth}
        return json.dumps({"endpoint": self.endpoint, "keys": keys})

    @property
    def address_hash(self) -> str:
        return hashlib.sha256(self.endpoint.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDevice:
    """One device as the settings show it."""

    id: uuid.UUID
    name: str
    is_phone: bool
    since: datetime
    is_current: bool


def connect_signals() -> None:
    post_delete.connect(_forget_session, sender=Session, dispatch_uid="push-of-ended-sessions")


def _forget_session(sender: type[Session], instance: Session, **_facts: Any) -> None:
    """Turn push messages off on the device whose session ended: nobody is signed in there."""
    PushDevice.objects.filter(session_key=instance.session_key).delete()


def add(person: Member, session_key: str, name: str, text: str, *, is_phone: bool) -> None:
    """Turn push messages on for the browser of this session, which sent `text`. Raises Refused."""
    said = _read_subscription(text)
    _check_endpoint(said.endpoint)
    with transaction.atomic():
        # Two requests at once neither store the same browser twice nor exceed the most.
        list(Member.objects.select_for_update().filter(pk=person.pk).only("pk"))
        # A browser has one subscription, also if another person signs in there.
        PushDevice.objects.filter(address_hash=said.address_hash).delete()
        PushDevice.objects.filter(session_key=session_key).delete()
        live = [device.pk for device in filter_live(person)]
        # The settings do not show the others, so nobody could remove them.
        PushDevice.objects.filter(person=person).exclude(pk__in=live).delete()
        if len(live) >= MAX_DEVICES:
            raise Refused(
                _("You have %(count)d devices, which is the most. Remove one first.")
                % {"count": MAX_DEVICES}
            )
        device = PushDevice(
            person=person,
            key=push_keys.get_newest(),
            address_hash=said.address_hash,
            session_key=session_key,
            name=name[:100],
            is_phone=is_phone,
        )
        device.seal(said.to_json())
        device.save(force_insert=True)
        _log(person, Who.of(person), "added", name)


def remove(person: Member, device_id: uuid.UUID) -> bool:
    """Turn push messages off on one device. Return False if it is gone already."""
    return _delete(PushDevice.objects.filter(person=person, pk=device_id), Who.of(person))


def drop_dead(device_id: uuid.UUID) -> None:
    """Delete a device that its push service no longer knows."""
    _delete(PushDevice.objects.filter(pk=device_id), audit_log.SERVER)


def _delete(rows: QuerySet[PushDevice], actor: Who) -> bool:
    with transaction.atomic():
        device = rows.select_related("person").first()
        if device is None or not rows.delete()[0]:
            return False
        _log(device.person, actor, "removed", device.name)
    return True


def _log(person: Member, actor: Who, act: str, name: str) -> None:
    data = {"of": f"push device {name}", "act": act}
    event = AuditEvent(
        kind=LogEntry.Kind.NOTIFICATIONS, data=data, actor=actor, person=Who.of(person)
    )
    audit_log.append([event])


def list_devices(person: Member, session_key: str | None) -> list[ListedDevice]:
    """Return the devices of this person, the one of this session first."""
    devices = [
        ListedDevice(
            id=device.pk,
            name=device.name,
            is_phone=device.is_phone,
            since=device.created_at,
            is_current=device.session_key == session_key,
        )
        for device in filter_live(person)
    ]
    return sorted(devices, key=lambda device: not device.is_current)


def filter_live(person: Member) -> list[PushDevice]:
    """Return the devices of this person whose sessions last, newest first."""
    devices = list(PushDevice.objects.filter(person=person).select_related("key"))
    if not devices or not person.is_active:
        return []
    keys = [device.session_key for device in devices]
    stored = Session.objects.filter(session_key__in=keys, expire_date__gt=Now())
    hashes = {person.get_session_auth_hash(), *person.get_session_auth_fallback_hash()}
    live = {
        each.session_key for each in stored if each.get_decoded().get(HASH_SESSION_KEY) in hashes
    }
    return [device for device in devices if device.session_key in live]


def _read_subscription(text: str) -> Subscription:
    """Return what the browser sent. Raises Refused."""
    if not text:
        raise Refused(
            _("Notifications need JavaScript. Switch it on in your browser, and try again.")
        )
    try:
        if len(text) > MAX_SUBSCRIPTION_CHARACTERS:
            raise ValueError("too long")
        read = json.loads(text)
        said = Subscription(
            endpoint=str(read["endpoint"]),
            p256dh=str(read["keys"]["p256dh"]),
            auth=str(read["keys"]["auth"]),
        )
        point, secret = base64url.decode(said.p256dh), base64url.decode(said.auth)
        push_keys.check_point(point)
        if len(secret) != SECRET_BYTES:
            raise ValueError("no secret")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Refused(
            _("The browser’s subscription can’t be read. Reload the page, and try again.")
        ) from None
    return said


def _check_endpoint(endpoint: str) -> None:
    """Refuse an address that this server must not send to. Raises Refused."""
    try:
        outbound.check_address(endpoint, settings.PUSH_PRIVATE_HOSTS)
        async_to_sync(outbound.check_host)(endpoint, settings.PUSH_PRIVATE_HOSTS)
    except outbound.BadAddress as error:
        raise Refused(
            _("The address of the browser’s push service is not allowed. %(reason)s")
            % {"reason": error}
        ) from None
