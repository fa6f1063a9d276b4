"""The tools that a turn's provider could not take, said once at the top of its answer."""

from collections.abc import Sequence

from chatapp.models import Turn
from chatapp.providers.events import ToolLeftOut

from .journal import Entry
from .top_notices import LEFT_OUT, note_once

MOST_NAMED = 5


def note_left_out(turn: Turn, left_out: Sequence[ToolLeftOut]) -> list[Entry]:
    """Store the notice inside the caller's transaction; returns what the journal must say."""
    hint = "A model of another provider may take them."
    return note_once(turn, LEFT_OUT, _sentences(left_out), hint)


def _sentences(left_out: Sequence[ToolLeftOut]) -> str:
    """By reason, for many tools may share one."""
    names: dict[str, list[str]] = {}
    for tool in left_out:
        names.setdefault(tool.reason, []).append(tool.name)
    return " ".join(
        f"The model was not told of {_listed(group)}. {reason}" for reason, group in names.items()
    )


def _listed(names: Sequence[str]) -> str:
    shown = [f"“{name}”" for name in names[:MOST_NAMED]]
    more = len(names) - MOST_NAMED
    shown += [f"{more} more"] if more > 0 else []
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
