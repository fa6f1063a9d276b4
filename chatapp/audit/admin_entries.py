"""The log's entries about acts of admins that change no row by themselves: checks, tests and
downloads. An entry names what was checked and never says what was sent or what came back.

It is written before the act, so that an act that fails half-way is in the log as well.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from . import audit_log
from .audit_log import SERVER, AuditEvent, Who

Kind = audit_log.Kind
MOST_NAMES = 20


def log_act(kind: audit_log.Kind, of: str, act: str, **more: Any) -> None:
    """Log what the acting person does with `of`."""
    data = {"of": of[:200], "act": act, **more}
    audit_log.append([AuditEvent(kind=kind, data=data, actor=audit_log.get_actor())])


def log_service_act(service: str, act: str, **more: Any) -> None:
    log_act(Kind.SERVICE_CHECKED, f"service {service}", act, **more)


def log_model_test(model_id: str, by: Who) -> None:
    """Log that a model is asked for a short answer or a vector, to see that it works."""
    audit_log.append([AuditEvent(kind=Kind.MODEL_TESTED, data={"of": model_id}, actor=by)])


def log_download(
    of: str,
    act: str,
    person: Who = SERVER,
    conversation_id: UUID | None = None,
    **more: Any,
) -> None:
    """Log that a file leaves the admin. `person` is whose data it has."""
    event = AuditEvent(
        kind=Kind.DOWNLOADED,
        data={"of": of[:200], "act": act, **more},
        actor=audit_log.get_actor(),
        person=person,
        conversation_id=conversation_id,
    )
    audit_log.append([event])


def name_host(address: str) -> str:
    """Return the host and the port of an address. Its path and query may hold a secret."""
    try:
        parts = urlsplit(address.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "?"
    return f"{host}:{port}" if host and port else host or "?"


def join_names(names: Sequence[str]) -> str:
    """Return the first MOST_NAMES names. The entry has their count beside them."""
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown}, …" if len(names) > MOST_NAMES else shown
