"""What is configured about services, and what was learned of them."""

from .service import Service
from .tool import ToolDefinition, ToolSetting

__all__ = ["Service", "ToolDefinition", "ToolSetting"]
