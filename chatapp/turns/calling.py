"""How the rest of the process tells the engine that a turn has something to do.

Where no engine runs (a command beside a server) nobody listens: the server's sweep picks it up, or
the command moves the turn itself.
"""

import uuid
from collections.abc import Callable

LISTENERS: list[Callable[[uuid.UUID], None]] = []


def wake(turn_id: uuid.UUID) -> None:
    """Call after the commit that gave the turn something to do; safe from any thread."""
    for listener in LISTENERS:
        listener(turn_id)
