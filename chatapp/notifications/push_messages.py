"""Push messages (RFC 8030): encrypted for one browser (RFC 8291) and signed by this server's key
(RFC 8292) with the library, and sent through the guarded client."""

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.templatetags.static import static

from chatapp.models import PushDevice
from chatapp.server.address import base_url
from mcpconfig.values.lazy_module import LazyModule

from . import outbound
from .outbound import NotSent, Outgoing

if TYPE_CHECKING:
    import py_vapid
    import pywebpush
else:
    # They load two HTTP libraries, which are not used here.
    pywebpush = LazyModule("pywebpush")
    py_vapid = LazyModule("py_vapid")

# How long the signature is valid; at most a day is allowed.
SIGNED_SECONDS = 3_600
# What a push service answers about a subscription that has ended.
GONE = (404, 410)
ICON = "img/icon-192.png"
NO_CONTACT = "mailto:admin@countersign.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushMessage:
    """What a device shows. `path` opens with a click. A later message with the same `topic` takes
    the place of an earlier one. `ttl` is how many seconds the push service keeps it."""

    title: str
    body: str
    path: str
    topic: str
    ttl: int
    is_urgent: bool

    def to_json(self) -> str:
        return json.dumps(
            {
                "title": self.title,
                "body": self.body,
                "tag": self.topic,
                "renotify": True,
                "icon": static(ICON),
                "data": self.path,
            }
        )


class DeviceGone(Exception):
    """The push service no longer knows the device."""


async def push(device: PushDevice, message: PushMessage) -> None:
    """Send one message to one device. Raises NotSent or DeviceGone."""
    try:
        await outbound.send(build_request(device, message), settings.PUSH_PRIVATE_HOSTS)
    except NotSent as error:
        if error.status in GONE:
            raise DeviceGone from error
        raise


def build_request(device: PushDevice, message: PushMessage) -> Outgoing:
    """Return the request to the push service. Only the browser can read its body."""
    subscription = json.loads(device.read_subscription())
    endpoint = subscription["endpoint"]
    body = pywebpush.WebPusher(subscription).encode(message.to_json().encode())["body"]
    parts = urlsplit(endpoint)
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(time.time()) + SIGNED_SECONDS,
        "sub": _get_contact(),
    }
    signer = py_vapid.Vapid02.from_raw(device.key.read_private_key().encode())
    return Outgoing(
        url=endpoint,
        headers={
            **signer.sign(claims),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(message.ttl),
            "Urgency": "high" if message.is_urgent else "normal",
            "Topic": message.topic,
        },
        body=body,
    )


def _get_contact() -> str:
    """Return where the operator of a push service finds the operator of this server."""
    parts = urlsplit(base_url())
    is_public = parts.scheme == "https" and "." in (parts.hostname or "")
    return f"https://{parts.hostname}" if is_public else NO_CONTACT
