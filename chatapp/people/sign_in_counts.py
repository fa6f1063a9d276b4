"""Counts failed sign-ins and locks for the metrics. Names and addresses are not counted apart."""

from typing import Any

from axes.signals import user_locked_out
from django.contrib.auth.signals import user_login_failed

from chatapp.telemetry import metrics

from .sign_in_limits import BEARER_NAME


def connect_signals() -> None:
    for kind in ("password", "token"):
        metrics.SIGN_IN_LOCKS.labels(kind)
    user_login_failed.connect(_count_failure, dispatch_uid="count failed sign-ins")
    user_locked_out.connect(_count_lock, dispatch_uid="count locks")


def _count_failure(sender: Any, credentials: dict[str, Any], **_: Any) -> None:
    metrics.SIGN_IN_FAILURES.labels(_get_kind(credentials.get("username"))).inc()


def _count_lock(sender: Any, username: str | None = None, **_: Any) -> None:
    metrics.SIGN_IN_LOCKS.labels(_get_kind(username)).inc()


def _get_kind(name: Any) -> str:
    return "token" if str(name or "").startswith(BEARER_NAME) else "password"
