"""What the chat says of a stored tool to `manage.py mcp` and to the admins' pages."""

from mcpconfig.describe import ToolDescription
from mcpconfig.models import ToolDefinition, ToolSetting

from .catalogue import risk_of
from .tool_id import tool_id


def describe_tool(definition: ToolDefinition) -> ToolDescription:
    """The id that models see, and the risk as it stands with the admin's settings."""
    service = definition.service
    setting = ToolSetting.objects.filter(service=service, name=definition.name).first()
    risk = risk_of(service, definition, setting)
    return ToolDescription(
        id=tool_id(service.name, definition.name), level=risk.level, reasons=list(risk.reasons)
    )
