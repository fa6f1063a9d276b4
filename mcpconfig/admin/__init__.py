"""The Django admin of services: their settings, tools, sign-ins and trace.

It knows nothing of the chat, which extends these pages in `chatapp.admin.services`.
"""

from . import exchanges, identity_providers, services, tools

__all__ = ["exchanges", "identity_providers", "services", "tools"]
