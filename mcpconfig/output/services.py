"""The output of services and their tools."""

import json
import re
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.secrets import credentials
from mcpconfig.services.tool_definitions import describe_tool_state
from mcpconfig.values.errors import OperationError
from mcpconfig.values.hooks import current_hooks
from mcpconfig.values.results import ConnectionReport

Json = dict[str, Any]

# Control characters except line ends and tabs, and characters that change the direction of text.
# With them, a service could move the cursor of a terminal and overwrite other output.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def replace_controls(text: str) -> str:
    """Replace control characters in a text for a terminal, because services wrote parts of it."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def build_error_value(error: OperationError) -> Json:
    return {"kind": error.kind, "message": error.message, "hint": error.hint}


def build_service_value(service: Service) -> Json:
    """Return the configuration of a service, what was learned from it, and its health."""
    return {
        **_build_configuration(service),
        **_build_learned_values(service),
        **_build_health(service),
    }


def _build_configuration(service: Service) -> Json:
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
        "secrets": credentials.summarize_secrets(service),
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


def _build_learned_values(service: Service) -> Json:
    current = service.definitions.filter(is_current=True)
    return {
        "known_transport": service.known_transport,
        "era": service.known_era,
        "tools": current.count(),
        "tools_listed_at": _format_moment(service.tools_listed_at),
        "left_out": service.left_out,
        "sign_ins": service.oauth_grants.count(),
    }


def _build_health(service: Service) -> Json:
    return {
        "state": service.state,
        "last_success_at": _format_moment(service.last_success_at),
        "last_error": service.last_error,
        "retries": service.retries,
        "next_retry_at": _format_moment(service.next_retry_at),
    }


def _format_moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def format_service(service: Service) -> str:
    return f"{service.name:<24} {service.state:<14} {service.url}"


def format_fields(value: Json) -> list[str]:
    """Return a line for each field. Further lines of a value are indented, so that a value cannot
    imitate a field."""
    lines = [f"{name.replace('_', ' '):<26} {format_value(item)}" for name, item in value.items()]
    return [line.replace("\n", "\n" + " " * 27) for line in lines]


def format_value(item: Any) -> str:
    """Return a value as text."""
    if isinstance(item, bool):
        return _("yes") if item else _("no")
    if isinstance(item, dict) and item.keys() >= {"kind", "message", "hint", "at"}:
        return f"{item['kind']}: {item['message']} {item['hint']} ({item['at']})"
    if isinstance(item, dict):
        return json.dumps(item, ensure_ascii=False) if item else "–"
    if isinstance(item, list):
        names = [entry["name"] if isinstance(entry, dict) else str(entry) for entry in item]
        return ", ".join(names) or _("none")
    return "–" if item in (None, "") else str(item)


def build_report_value(report: ConnectionReport) -> Json:
    return asdict(report)


def build_failed_test_value(error: OperationError) -> Json:
    steps = [{"name": name, "detail": detail} for name, detail in error.tried]
    return {"error": build_error_value(error), "steps": steps}


def format_report(report: ConnectionReport) -> list[str]:
    lines = [f"{step.name}: {step.detail}" for step in report.steps]
    lines += [
        _("Left out: %(name)s. %(reason)s") % {"name": tool.name, "reason": tool.reason}
        for tool in report.left_out
    ]
    return [
        *lines,
        _("Requests: %(requests)s, %(milliseconds)s ms")
        % {"requests": report.requests, "milliseconds": report.duration_ms},
    ]


def build_tool_values(service: Service, definitions: list[ToolDefinition]) -> list[Json]:
    settings = {setting.name: setting for setting in service.settings.all()}
    return [_build_tool_value(tool, settings.get(tool.name)) for tool in definitions]


def _build_tool_value(tool: ToolDefinition, setting: ToolSetting | None) -> Json:
    description = current_hooks().describe_tool(tool, setting)
    return {
        "name": tool.name,
        "id": description.id,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
        "hash": tool.hash,
        "level": description.level,
        "reasons": description.reasons,
        "state": describe_tool_state(tool, setting),
    }


def build_tool_setting_value(service: Service, tool: ToolDefinition) -> Json:
    """Return a tool with its settings. An empty level means that the risk is computed."""
    [value] = build_tool_values(service, [tool])
    setting = service.settings.filter(name=tool.name).first() or ToolSetting()
    return {
        **value,
        "enabled": setting.is_enabled,
        "decided_level": setting.level,
        "safe_to_repeat": setting.is_safe_to_repeat,
        "review_results": setting.wants_review,
        "guidance": setting.guidance,
    }


def format_tool(value: Json) -> str:
    summary = value["description"].strip().split("\n", 1)[0][:70]
    return f"{value['name']:<32} {value['level'] or '–':<7} {value['state']:<10} {summary}"


def format_block(block: Json) -> str:
    """Return a content block as text."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return f"[{block.get('type', 'unknown')} {block.get('mimeType', '')}]".replace(" ]", "]")
