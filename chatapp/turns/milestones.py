"""Named points that a turn passes. Observers see them in the order in which things become durable.

Nothing observes them in production; the fault tests kill the process at each of them.
"""

from collections.abc import Callable

OBSERVERS: list[Callable[[str], None]] = []


def passed(point: str) -> None:
    """Tell every observer that this process has come to `point`."""
    for observer in OBSERVERS:
        observer(point)
