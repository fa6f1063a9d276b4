"""Settings of a server that a test strikes down: the real ones, and an observer of fault points.

The file that `STRIKE_FILE` names holds an order, `POINT:COUNT SIGNAL`: when the process has come to
the point for the COUNTth time since, it takes the order away and sends itself the signal.
`HINT_POLL_SECONDS` is how often the server looks for changes that no hint announced.
"""

import os
import signal
from importlib import import_module
from pathlib import Path

from django.apps import AppConfig

from chatapp.server.runtime import current_runtime
from chatapp.settings import *  # noqa: F403

STRIKE_FILE = Path(os.environ["STRIKE_FILE"])
AXES_ENABLED = False


class KillObserver:
    """Counts how often this process has come to the point that was ordered."""

    def __init__(self) -> None:
        self.order = ""
        self.count = 0

    def __call__(self, point: str) -> None:
        try:
            order = STRIKE_FILE.read_text()
        except FileNotFoundError:
            return
        if order != self.order:
            self.order, self.count = order, 0
        where, name = order.split()
        wanted, times = where.split(":")
        self.count += point == wanted
        if point == wanted and self.count == int(times):
            STRIKE_FILE.unlink()
            os.kill(os.getpid(), signal.Signals[name])


class StrikeConfig(AppConfig):
    """Adds the observer to the runtime that the chat's own application opens."""

    name = "tests.flows"

    def ready(self) -> None:
        current_runtime().fault_observers.append(KillObserver())
        if seconds := os.environ.get("HINT_POLL_SECONDS"):
            import_module("chatapp.live.hub").POLL_SECONDS = float(seconds)  # type: ignore[attr-defined]


INSTALLED_APPS = [*INSTALLED_APPS, "tests.flows.kill_settings.StrikeConfig"]  # noqa: F405

if os.environ.get("LOSSY_LAYER"):
    name = "LossyRedisLayer" if REDIS_URL else "LossyNotifyLayer"  # noqa: F405
    CHANNEL_LAYERS["default"]["BACKEND"] = f"tests.flows.lossy_layer.{name}"  # noqa: F405
