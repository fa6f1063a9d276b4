"""A module that is imported when one of its attributes is first used."""

import asyncio
import importlib
import sys
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """A stand-in for the module of this name that imports it on first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


async def load(module: ModuleType) -> None:
    """Import a lazy module in a thread. On the event loop, it would delay all streams."""
    if module.__name__ not in sys.modules:
        await asyncio.to_thread(importlib.import_module, module.__name__)
