"""The conditions of rules for modules that import them at every start. They are imported on first
use, because their library takes a third of a second to build its parser, and few rules have one."""

from typing import TYPE_CHECKING

from mcpconfig.values.lazy_module import LazyModule

if TYPE_CHECKING:
    from . import conditions
else:
    conditions = LazyModule("chatapp.permissions.conditions")

__all__ = ["conditions"]
