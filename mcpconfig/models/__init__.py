"""What is configured about services, and what was learned of them."""

from .exchange import Exchange
from .service import Credential, Service
from .tool import ToolDefinition, ToolSetting

__all__ = ["Credential", "Exchange", "Service", "ToolDefinition", "ToolSetting"]
