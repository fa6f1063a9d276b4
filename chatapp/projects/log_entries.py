"""The entries of projects in the activity log: names and ids, and no texts."""

from typing import Any

from chatapp.audit import audit_log
from chatapp.audit.audit_log import AuditEvent, Who
from chatapp.models import LogEntry, Member, Project


def log_act(
    project: Project, act: str, by: Member, about: Member | None = None, **more: Any
) -> None:
    """Log an act in the caller's transaction. `about` is the member whom it concerns."""
    actor = Who.of(by)
    event = AuditEvent(
        kind=LogEntry.Kind.PROJECT,
        data={"project": str(project.pk), "of": project.name, "act": act, **more},
        actor=actor,
        person=Who.of(about) if about else actor,
    )
    audit_log.append([event])


def log_removal(project: Project) -> None:
    """Log that the server removed a deleted project permanently."""
    event = AuditEvent(
        kind=LogEntry.Kind.PROJECT,
        data={"project": str(project.pk), "of": "", "act": "purged"},
        person=Who.of(project.owner),
    )
    audit_log.append([event])
