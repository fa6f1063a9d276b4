"""Entries of the activity log about policy changes. What changed in each row is in entries of its
own, which the saved rows write (`audit.change_entries`)."""

from collections.abc import Iterable
from typing import Any

from django.utils.translation import override

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import PolicyChange

from .proposal import Step


def log_change(
    kind: audit_log.Kind, change: PolicyChange, steps: Iterable[Step] = (), **more: Any
) -> None:
    # The log is hashed, so its text does not depend on the language of the person.
    with override("en"):
        edits = [
            {"of": step.title, "act": step.act, "row": step.edit.row_id or 0} for step in steps
        ]
    data = {
        "of": f"policy change “{change.title}”",
        "change": change.pk,
        "author": Who.of(change.author).name,
        "reason": more.pop("reason", ""),
        **more,
    }
    if edits:
        data["edits"] = edits
    audit_log.append([AuditEvent(kind=kind, data=data, actor=audit_log.get_actor())])
