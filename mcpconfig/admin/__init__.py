"""The admins' workbench: services, what they offer, and what was exchanged with them."""

from . import exchanges, identity_providers, services, tools

__all__ = ["exchanges", "identity_providers", "services", "tools"]
