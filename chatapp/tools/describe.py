"""What the chat says of a stored tool to `manage.py mcp` and to the admins' pages."""

from chatapp.permissions.risk import ToolFacts, classify
from mcpconfig.describe import ToolDescription
from mcpconfig.models import ToolDefinition, ToolSetting

from .tool_id import tool_id


def describe_tool(definition: ToolDefinition) -> ToolDescription:
    """The id that models see, and the risk as it stands with the admin's settings."""
    service = definition.service
    setting = ToolSetting.objects.filter(service=service, name=definition.name).first()
    risk = classify(
        ToolFacts(
            name=definition.name,
            description=definition.description,
            input_schema=definition.input_schema,
            annotations=definition.annotations,
            is_trusted=service.is_trusted,
        ),
        setting.level if setting and setting.level else None,
    )
    return ToolDescription(
        id=tool_id(service.name, definition.name), level=risk.level, reasons=list(risk.reasons)
    )
