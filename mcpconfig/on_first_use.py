"""The operations for those who import them at every start: they load on first use, because the MCP
SDK below them takes most of a second, which few commands need."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class OnFirstUse(ModuleType):
    """Stands for the module of this name, and loads it when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)


if TYPE_CHECKING:
    from . import operations, reading, tasks
    from .oauth import company_sign_in, sign_in
else:
    company_sign_in = OnFirstUse("mcpconfig.oauth.company_sign_in")
    operations = OnFirstUse("mcpconfig.operations")
    reading = OnFirstUse("mcpconfig.reading")
    sign_in = OnFirstUse("mcpconfig.oauth.sign_in")
    tasks = OnFirstUse("mcpconfig.tasks")

__all__ = ["company_sign_in", "operations", "reading", "sign_in", "tasks"]
