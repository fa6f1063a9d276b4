"""This process's engine and hub, from the moment its event loop starts until it ends."""

from dataclasses import dataclass

from .engine import Engine
from .live import Hub


@dataclass(slots=True, kw_only=True)
class Workplace:
    """What moves turns here, and what shows them to the tabs of this process."""

    engine: Engine
    hub: Hub


_current: list[Workplace] = []


def current() -> Workplace:
    """The workplace of this process; a server that has not started has none."""
    return _current[0]


async def open_workplace(*, sweeps: bool = True) -> Workplace:
    """Start working in the running event loop."""
    workplace = Workplace(engine=Engine(), hub=Hub())
    workplace.hub.start()
    workplace.engine.start(sweeps=sweeps)
    _current.append(workplace)
    return workplace


async def close_workplace(workplace: Workplace) -> None:
    """Hand every turn on, then stop showing. Closing twice is harmless."""
    if workplace not in _current:
        return
    _current.remove(workplace)
    await workplace.engine.close()
    await workplace.hub.close()
