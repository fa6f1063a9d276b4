"""Anchors: signed copies of the end of the log, written to places that this server cannot change.

An anchor is a line of JSON: `at`, `position` and `hash` of the last entry, the public `key`, and
the Ed25519 `signature` (RFC 8032) of PREFIX and the other four in the form of RFC 8785. A log that
was truncated or rewritten does not match earlier anchors.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.telemetry import metrics
from mcpconfig.values import base64url
from mcpconfig.values.lazy_module import LazyModule
from mcpconfig.values.results import canonical_json

from .audit_log import read_end
from .hash_chain import Mark, format_time
from .last_runs import record_anchor

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:
    # Few servers write anchors, and the library is a tenth of the memory of a server.
    exceptions = LazyModule("cryptography.exceptions")
    ed25519 = LazyModule("cryptography.hazmat.primitives.asymmetric.ed25519")

PREFIX = b"countersign log anchor\n"
KEY_PREFIX = "ed25519:"
KEY_BYTES = 32
SIGNED = ("at", "hash", "key", "position")
HTTP_SECONDS = 10.0


class BadAnchor(Exception):
    """A line that looks like an anchor is none that this log's key has signed."""


# --- making and checking -------------------------------------------------------------------
def make_anchor() -> str:
    """Return the anchor of the log as it ends now: one line of JSON."""
    end = read_end()
    key = _load_key()
    body = {
        "at": format_time(timezone.now()),
        "hash": end.hash,
        "key": base64url.encode(key.public_key().public_bytes_raw()),
        "position": end.position,
    }
    return json.dumps(body | {"signature": base64url.encode(key.sign(_build_message(body)))})


def is_key(text: str) -> bool:
    """Whether anchors can be signed with this key: any bytes of its length are one."""
    try:
        return len(base64url.decode(text)) == KEY_BYTES
    except ValueError:
        return False


def get_public_key() -> str:
    """Return the key that anchors of this server can be checked with, as URL-safe base64."""
    return base64url.encode(_load_key().public_key().public_bytes_raw())


def format_public_key() -> str:
    """Return this server's key as people store it and give it to commands.

    Base64 may begin with "-", which a command line takes for an option; so it has a prefix.
    """
    return KEY_PREFIX + get_public_key()


def parse_public_key(text: str) -> str:
    """Return the key of an anchor, from what `format_public_key` returned or from the bare key."""
    return text.strip().removeprefix(KEY_PREFIX)


def read_anchors(lines: Iterable[str], keys: Iterable[str]) -> Iterator[Mark]:
    """Yield what the anchors among these lines say of the log.

    Other lines are skipped, so that a log file of the server can be read too. Raises BadAnchor for
    an anchor that none of the public `keys` has signed.
    """
    trusted = set(keys)
    for number, line in enumerate(lines, start=1):
        anchor = _find_anchor(line)
        if anchor is None:
            continue
        try:
            yield _check_anchor(anchor, trusted)
        except (ValueError, TypeError, exceptions.InvalidSignature) as error:
            raise BadAnchor(
                _("Line %(number)d is not an anchor signed with this key.") % {"number": number}
            ) from error


def _find_anchor(line: str) -> dict[str, Any] | None:
    """Return the object of JSON at the end of this line, if it has the names of an anchor."""
    try:
        found = json.loads(line[line.index("{") :])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.keys() == {*SIGNED, "signature"} else None


def _check_anchor(anchor: dict[str, Any], trusted: set[str]) -> Mark:
    body = {name: anchor[name] for name in SIGNED}
    if body["key"] not in trusted:
        raise ValueError("unknown key")
    key = ed25519.Ed25519PublicKey.from_public_bytes(base64url.decode(body["key"]))
    key.verify(base64url.decode(anchor["signature"]), _build_message(body))
    return Mark(position=int(body["position"]), hash=str(body["hash"]))


def _build_message(body: dict[str, Any]) -> bytes:
    return PREFIX + canonical_json(body)


def _load_key() -> "ed25519.Ed25519PrivateKey":
    return ed25519.Ed25519PrivateKey.from_private_bytes(base64url.decode(settings.LOG_SIGNING_KEY))


def prepare_anchor_metrics() -> None:
    """Show when anchors are due before the first is written, where this server writes them."""
    if not settings.TASKS_WORKER or not settings.LOG_ANCHORS:
        return metrics.ANCHOR_INTERVAL.set(0)
    metrics.ANCHOR_INTERVAL.set(settings.LOG_ANCHOR_SECONDS)
    for place in settings.LOG_ANCHORS:
        kind = place.partition(":")[0]
        metrics.ANCHOR_SUCCESS.labels(kind).set_to_current_time()
        metrics.ANCHOR_FAILURES.labels(kind)


# --- the places ----------------------------------------------------------------------------
def write_anchor(anchor: str) -> list[str]:
    """Write the anchor to every place of LOG_ANCHORS. Return a sentence for each that failed."""
    failures = [write_to_place(place, anchor) for place in settings.LOG_ANCHORS]
    return [each for each in failures if each]


def write_to_place(place: str, anchor: str) -> str:
    """Write the anchor to this place, and record how that ended. Return a sentence if it failed, or
    an empty string."""
    reason = _write_to_place(place, anchor)
    record_anchor(place, reason)
    if not reason:
        return ""
    return _("No anchor was written to %(place)s: %(reason)s.") % {
        "place": describe_place(place),
        "reason": reason.removesuffix("."),
    }


def _write_to_place(place: str, anchor: str) -> str:
    """Return why it failed, without the place, or an empty string."""
    kind = place.partition(":")[0]
    try:
        _find_writer(place)(place, anchor)
    except httpx2.HTTPStatusError as error:
        # Its text has the whole address.
        why = _("it answered %(status)s") % {"status": error.response.status_code}
    except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    else:
        metrics.ANCHOR_SUCCESS.labels(kind).set_to_current_time()
        return ""
    metrics.ANCHOR_FAILURES.labels(kind).inc()
    return why


def describe_place(place: str) -> str:
    """Return the place without parts of an address that may have a secret in them."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return place
    return f"{scheme}://{re.split('[/?#]', rest.rpartition('@')[2])[0]}"


def is_place(place: str) -> bool:
    """Whether LOG_ANCHORS may have this entry."""
    scheme, _colon, rest = place.partition(":")
    match scheme:
        case "stdout":
            return not rest
        case "file":
            return rest.startswith("/")
        case "mailto":
            return rest.count("@") == 1
        case "https":
            return _has_host(place)
        case _:
            return False


def _has_host(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _find_writer(place: str) -> Callable[[str, str], None]:
    return {"stdout": _print, "file": _append, "mailto": _mail, "https": _post}[
        place.partition(":")[0]
    ]


def _print(_place: str, anchor: str) -> None:
    print(anchor, flush=True)


def _append(place: str, anchor: str) -> None:
    number = os.open(place.removeprefix("file:"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(number, "a", encoding="utf-8") as file:
        file.write(anchor + "\n")
        file.flush()
        os.fsync(file.fileno())


def _mail(place: str, anchor: str) -> None:
    position = json.loads(anchor)["position"]
    message = EmailMessage(
        subject=_("Countersign: the log has %(count)s entries") % {"count": f"{position:,}"},
        body=_(
            "%(anchor)s\n\nKeep this mail. To check the log, save the line above to a file. Run:\n"
            "manage.py log verify --anchor FILE\n"
        )
        % {"anchor": anchor},
        to=[place.removeprefix("mailto:")],
    )
    message.send()


def _post(place: str, anchor: str) -> None:
    answer = httpx2.post(
        place,
        content=anchor,
        headers={"Content-Type": "application/json"},
        timeout=HTTP_SECONDS,
    )
    answer.raise_for_status()
