"""The admins' workbench: services, what they offer, and what was exchanged with them."""

from . import exchanges, services, tools

__all__ = ["exchanges", "services", "tools"]
