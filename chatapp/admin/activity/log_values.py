"""The values of log entries that need a reason: those that the page of a call hides as well. The
log itself keeps them."""

import json
from typing import Any

from django.db.models import Case, F, JSONField, Q, QuerySet, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Concat

from chatapp.models import LogEntry, Member

from .call_story import HIDDEN_REASON, hide_reason

Kind = LogEntry.Kind
HIDDEN = "…"
BY_POLICY = "policy: "
# Tools that admins ran by hand. Their values need the right to see trials, not a reason.
TRIALS = (Kind.TRIAL_SENT, Kind.TRIAL_ENDED)
VIEW_TRIALS = "chatapp.view_trial"


def build_trial_condition(reader: Member) -> Q:
    """Return which entries about trials this reader sees in full: their own, or all."""
    of_trials = Q(kind__in=TRIALS)
    return of_trials if reader.has_perm(VIEW_TRIALS) else of_trials & Q(actor_id=reader.pk)


def read_values(entry: LogEntry, *, may_read: bool) -> dict[str, Any]:
    """Return the data of the entry. `may_read`: whether the reader may see what its chat says."""
    data: dict[str, Any] = json.loads(entry.data)
    return data if may_read else data | _hide_values(entry, data)


def has_hidden_values(entry: LogEntry) -> bool:
    """Whether the entry has values that an admin reads only after a reason."""
    data = json.loads(entry.data)
    return any(data[name] != hidden for name, hidden in _hide_values(entry, data).items())


def _hide_values(entry: LogEntry, data: dict[str, Any]) -> dict[str, Any]:
    """Return what replaces the arguments, the error and the reason of a call's or trial's entry."""
    is_trial = entry.kind in TRIALS
    # The program wrote the reason of copied values.
    if not is_trial and (entry.call_id is None or entry.kind == Kind.VALUES_COPIED):
        return {}
    hidden: dict[str, Any] = {}
    if data.get("arguments"):
        hidden["arguments"] = HIDDEN
    if data.get("error"):
        hidden["error"] = {**data["error"], "message": HIDDEN}
    if reason := data.get("reason"):
        by_policy = is_trial or entry.kind == Kind.DECIDED
        hidden["reason"] = hide_reason(reason) if by_policy else str(HIDDEN_REASON)
    grantor = str(data.get("granted_by") or "")
    if grantor.startswith(BY_POLICY):
        hidden["granted_by"] = BY_POLICY + hide_reason(grantor.removeprefix(BY_POLICY))
    return hidden


def annotate_searched(entries: QuerySet[LogEntry]) -> QuerySet[LogEntry]:
    """Add the text `searched`. Of a call or a trial it has only the tool and the service, so that
    no search finds out, word by word, what is hidden."""
    data = Cast("data", JSONField())
    named = Concat(
        KeyTextTransform("tool", data),
        Value(" "),
        KeyTextTransform("service", data),
        output_field=TextField(),
    )
    is_of_call = When(Q(call_id__isnull=False) | Q(kind__in=TRIALS), then=named)
    return entries.annotate(searched=Case(is_of_call, default=F("data"), output_field=TextField()))
