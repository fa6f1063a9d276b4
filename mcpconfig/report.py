"""What a test of the connection looks at and tells."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import MCPError

from .client import Connection
from .doorstep import address_step, sign_in_steps
from .errors import OperationError
from .explain import explain
from .limits import LIMITS
from .models import Service
from .paging import listed_prompts, listed_resources, listed_templates
from .results import ConnectionReport, Listing, Step, Tool, storable
from .wire import ExchangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many entries a list has, or why nobody knows; empty where nothing is declared."""

    count: int | None = None
    said: str = ""


async def counted(
    connection: Connection, listed: Callable[[Connection], Awaitable[Sequence[object]]], noun: str
) -> Counted:
    """A list beside the tools. If it fails in order, the rest of the service may still be good."""
    try:
        count = len(await listed(connection))
    except (MCPError, OperationError) as error:
        failure = explain(error, connection.wire.evidence)
        if failure is None or failure.kind not in ("rpc_error", "too_large"):
            raise
        return Counted(said=failure.message)
    return Counted(count=count, said=f"{count} {noun}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the lists of a service hold."""

    listing: Listing
    resources: Counted
    templates: Counted
    prompts: Counted


async def findings(connection: Connection, listing: Listing) -> Findings:
    declared = connection.client.server_capabilities
    resources = templates = prompts = Counted()
    if declared.resources is not None:
        resources = await counted(connection, listed_resources, "listed")
        templates = await counted(connection, listed_templates, "templates")
    if declared.prompts is not None:
        prompts = await counted(connection, listed_prompts, "listed")
    return Findings(listing=listing, resources=resources, templates=templates, prompts=prompts)


def report_of(connection: Connection, found: Findings) -> ConnectionReport:
    """What was found, while the connection is open. What it cost and the door are added later."""
    client = connection.client
    return ConnectionReport(
        steps=_steps(connection, found),
        server_name=client.server_info.name if client.server_info else "",
        era=client.protocol_version,
        transport=connection.transport,
        capabilities=_capabilities(connection),
        tool_count=len(found.listing.tools),
        tool_tokens=tool_tokens(found.listing.tools),
        resource_count=found.resources.count,
        template_count=found.templates.count,
        prompt_count=found.prompts.count,
        instructions=instructions(connection),
        left_out=tuple(found.listing.left_out),
        log=tuple(connection.log.messages),
        requests=0,
        duration_ms=0,
    )


def _steps(connection: Connection, found: Findings) -> tuple[Step, ...]:
    """The test in words, in the order in which it went."""
    client = connection.client
    info = client.server_info
    who = f"{info.name} {info.version}".strip() if info else "The service does not say its name."
    taken = [
        Step(name="Connect", detail=Service.Transport(connection.transport).label),
        Step(name="Agree on a protocol version", detail=client.protocol_version),
        Step(name="Ask who it is", detail=str(storable(who[: LIMITS.log_characters]))),
    ]
    if told := instructions(connection):
        taken.append(Step(name="Read its instructions", detail=told))
    taken.append(Step(name="Ask what it can do", detail=_in_words(_capabilities(connection))))
    taken.append(Step(name="List tools", detail=_tools_in_words(found.listing)))
    if found.resources.said:
        said = f"{found.resources.said}, {found.templates.said}"
        taken.append(Step(name="List resources", detail=said))
    if found.prompts.said:
        taken.append(Step(name="List prompts", detail=found.prompts.said))
    taken += [
        Step(name=f"Its log says ({entry.level})", detail=entry.text)
        for entry in connection.log.messages
    ]
    return tuple(taken)


async def steps_until(
    error: OperationError, service: Service, exchanges: Sequence[ExchangeRecord]
) -> tuple[tuple[str, str], ...]:
    """A test that failed, in words: how far it came, and what came of each way that was tried."""
    where = await address_step(service)
    taken = [(where.name, where.detail)]
    if exchanges:
        taken += [(step.name, step.detail) for step in sign_in_steps(exchanges)]
    answered = {each.rpc_method: each.status for each in exchanges if each.rpc_method}
    taken += [(f"Request {method}", _answer(status)) for method, status in answered.items()]
    return (*taken, *(error.tried or (("What went wrong", error.message),)))


def _answer(status: int | None) -> str:
    return f"answered with HTTP {status}" if status else "no answer"


def _capabilities(connection: Connection) -> dict[str, Any]:
    declared = connection.client.server_capabilities
    return declared.model_dump(by_alias=True, mode="json", exclude_none=True)


def _in_words(capabilities: dict[str, Any]) -> str:
    """The names of what a service says that it can do, with what it says of each."""
    said = []
    for name, how in capabilities.items():
        parts = sorted(part for part, is_there in how.items() if is_there)
        said.append(f"{name} ({', '.join(parts)})" if parts else name)
    text = ", ".join(said)[: LIMITS.log_characters]
    return str(storable(text)) or "It does not say."


def instructions(connection: Connection) -> str:
    """What the service tells models about itself, as the beginning of one line."""
    text = " ".join((connection.client.instructions or "").split())
    most = LIMITS.instructions_characters
    return str(storable(text if len(text) <= most else f"{text[: most - 1]}…"))


def tool_tokens(tools: Sequence[Tool]) -> int:
    """What the tools cost a model, by the rule of thumb of four characters a token."""
    described = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in tools
    ]
    return sum(len(json.dumps(tool, ensure_ascii=False)) for tool in described) // 4


def _tools_in_words(listing: Listing) -> str:
    tokens = tool_tokens(listing.tools)
    return f"{len(listing.tools)} listed, {len(listing.left_out)} left out, about {tokens} tokens"
