"""What the `mcp` command prints: values as JSON for programs, as lines for people."""

import json
import re
from dataclasses import asdict
from typing import Any

from .describe import describe
from .errors import OperationError
from .ledger import tool_state
from .models import Exchange, Service, ToolDefinition
from .results import CallOutcome, ConnectionReport

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


def error_text(error: OperationError) -> str:
    return f"{error.kind}: {error.message}" + (f"\n  {error.hint}" if error.hint else "")


def service_value(service: Service) -> Json:
    return {
        "name": service.name,
        "title": service.title,
        "url": service.url,
        "transport": service.transport,
        "authentication": service.authentication,
        "enabled": service.is_enabled,
        "trusted": service.is_trusted,
        "allows_private_addresses": service.allows_private_addresses,
        "state": service.state,
        "known_transport": service.known_transport,
        "era": service.known_era,
        "tools": service.definitions.filter(is_current=True).count(),
        "left_out": service.left_out,
        "last_success_at": service.last_success_at and service.last_success_at.isoformat(),
        "last_error": service.last_error,
    }


def service_line(service: Service) -> str:
    return f"{service.name:<24} {service.state:<10} {service.url}"


def service_lines(service: Service) -> list[str]:
    value = service_value(service)
    return [f"{name.replace('_', ' '):<26} {shown(item)}" for name, item in value.items()]


def shown(item: Any) -> str:
    """A value in words."""
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, dict):
        return f"{item.get('kind')}: {item.get('message')}"
    if isinstance(item, list):
        return ", ".join(str(entry.get("name", entry)) for entry in item) or "none"
    return "–" if item in (None, "") else str(item)


def report_value(report: ConnectionReport) -> Json:
    return asdict(report)


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


def tool_line(value: Json) -> str:
    first = value["description"].strip().split("\n", 1)[0][:70]
    return f"{value['name']:<32} {value['level'] or '–':<7} {value['state']:<10} {first}"


def call_value(outcome: CallOutcome) -> Json:
    return {
        "is_error": outcome.result.is_error,
        "content": outcome.result.content,
        "structured": outcome.result.structured,
        "outcome": "failed" if outcome.result.is_error else "succeeded",
        "duration_ms": outcome.duration_ms,
        "requests": outcome.requests,
    }


def failed_call_value(error: OperationError, duration_ms: int) -> Json:
    """A call without a result. Unless the failure is definite, nobody knows whether it ran."""
    return {
        "is_error": True,
        "content": [],
        "structured": None,
        "outcome": "failed" if error.is_definite else "unknown",
        "duration_ms": duration_ms,
        "requests": None,
        "error": error_value(error),
    }


def block_line(block: Json) -> str:
    """One content block for a person's eyes."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return f"[{block.get('type', 'unknown')} {block.get('mimeType', '')}]".replace(" ]", "]")


def exchange_value(exchange: Exchange) -> Json:
    return {
        "at": exchange.created_at.isoformat(),
        "operation": exchange.operation,
        "operation_id": str(exchange.operation_id),
        "method": exchange.method,
        "rpc_method": exchange.rpc_method,
        "status": exchange.status,
        "request_headers": exchange.request_headers,
        "request_body": exchange.request_body,
        "request_bytes": exchange.request_bytes,
        "response_headers": exchange.response_headers,
        "response_body": exchange.response_body,
        "response_bytes": exchange.response_bytes,
        "duration_ms": exchange.duration_ms,
    }


def exchange_line(exchange: Exchange) -> str:
    what = exchange.rpc_method or exchange.method
    status = exchange.status or "no answer"
    return (
        f"{exchange.created_at:%Y-%m-%d %H:%M:%S} {exchange.operation:<16} {what:<28} "
        f"{status!s:<9} {exchange.response_bytes:>8} B {exchange.duration_ms:>6} ms"
    )
