"""What the `mcp` command prints: values as JSON for programs, as lines for people."""

import json
import re
from dataclasses import asdict
from datetime import datetime
from typing import Any

from . import credentials
from .describe import describe
from .errors import OperationError
from .ledger import tool_state
from .models import Service, ToolDefinition, ToolSetting
from .results import ConnectionReport

Json = dict[str, Any]

# All that moves a terminal's cursor or sets its colours, but for line ends and tabs; and what turns
# the direction of writing. A service could draw over what is true.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def printable(text: str) -> str:
    """The text for a terminal. Much of it was written by services."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def error_value(error: OperationError) -> Json:
    return {"kind": error.kind, "message": error.message, "hint": error.hint}


def service_value(service: Service) -> Json:
    """What is configured, what is remembered, and how it does."""
    return {**_configured(service), **_learned(service), **_health(service)}


def _configured(service: Service) -> Json:
    return {
        "name": service.name,
        "title": service.title,
        "description": service.description,
        "guidance": service.guidance,
        "owner": service.owner.get_username() if service.owner else None,
        "visibility": service.visibility,
        "groups": [group.name for group in service.groups.all()],
        "shares_tools": service.shares_tools,
        "url": service.url,
        "transport": service.transport,
        "authentication": service.authentication,
        "identity_provider": service.identity_provider.name if service.identity_provider else None,
        "client_id": service.client_id,
        "scopes": service.scopes.split(),
        "secrets": credentials.summaries(service),
        "enabled": service.is_enabled,
        "trusted": service.is_trusted,
        "open": service.is_open,
        "on_at_first": service.starts_on,
        "new_tools": service.new_tools,
        "allows_private_addresses": service.allows_private_addresses,
        "allows_apps": service.allows_apps,
        "app_origins": service.app_origins.split(),
        "most_retries": service.most_retries if service.reconnects else 0,
    }


def _learned(service: Service) -> Json:
    current = service.definitions.filter(is_current=True)
    return {
        "known_transport": service.known_transport,
        "era": service.known_era,
        "tools": current.count(),
        "tools_listed_at": _moment(service.tools_listed_at),
        "left_out": service.left_out,
        "sign_ins": service.oauth_grants.count(),
    }


def _health(service: Service) -> Json:
    return {
        "state": service.state,
        "last_success_at": _moment(service.last_success_at),
        "last_error": service.last_error,
        "retries": service.retries,
        "next_retry_at": _moment(service.next_retry_at),
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def service_line(service: Service) -> str:
    return f"{service.name:<24} {service.state:<14} {service.url}"


def field_lines(value: Json) -> list[str]:
    """Each field of a value on a line of its own. What has several lines is set in, so that none
    of them passes for a field."""
    lines = [f"{name.replace('_', ' '):<26} {shown(item)}" for name, item in value.items()]
    return [line.replace("\n", "\n" + " " * 27) for line in lines]


def shown(item: Any) -> str:
    """A value in words."""
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, dict) and item.keys() >= {"kind", "message", "hint", "at"}:
        return f"{item['kind']}: {item['message']} {item['hint']} ({item['at']})"
    if isinstance(item, dict):
        return json.dumps(item, ensure_ascii=False) if item else "–"
    if isinstance(item, list):
        names = [entry["name"] if isinstance(entry, dict) else str(entry) for entry in item]
        return ", ".join(names) or "none"
    return "–" if item in (None, "") else str(item)


def report_value(report: ConnectionReport) -> Json:
    return asdict(report)


def failed_test_value(error: OperationError) -> Json:
    steps = [{"name": name, "detail": detail} for name, detail in error.tried]
    return {"error": error_value(error), "steps": steps}


def report_lines(report: ConnectionReport) -> list[str]:
    lines = [f"{step.name}: {step.detail}" for step in report.steps]
    lines += [f"Left out: {tool.name}. {tool.reason}" for tool in report.left_out]
    return [*lines, f"{report.requests} requests, {report.duration_ms} ms"]


def tool_values(service: Service, definitions: list[ToolDefinition]) -> list[Json]:
    settings = {setting.name: setting for setting in service.settings.all()}
    return [_tool_value(tool, tool_state(tool, settings.get(tool.name))) for tool in definitions]


def _tool_value(tool: ToolDefinition, state: str) -> Json:
    described = describe(tool)
    return {
        "name": tool.name,
        "id": described.id,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
        "hash": tool.hash,
        "level": described.level,
        "reasons": described.reasons,
        "state": state,
    }


def decided_tool_value(service: Service, tool: ToolDefinition) -> Json:
    """A tool with what admins decided about it; an empty level is worked out."""
    [value] = tool_values(service, [tool])
    setting = service.settings.filter(name=tool.name).first() or ToolSetting()
    return {
        **value,
        "enabled": setting.is_enabled,
        "decided_level": setting.level,
        "safe_to_repeat": setting.is_safe_to_repeat,
        "review_results": setting.wants_review,
        "guidance": setting.guidance,
    }


def tool_line(value: Json) -> str:
    first = value["description"].strip().split("\n", 1)[0][:70]
    return f"{value['name']:<32} {value['level'] or '–':<7} {value['state']:<10} {first}"


def block_line(block: Json) -> str:
    """One content block for a person's eyes."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return f"[{block.get('type', 'unknown')} {block.get('mimeType', '')}]".replace(" ]", "]")
