"""The operations that only read: resources, prompts and completions."""

import mcp_types as types
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.session.client import Connection
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError, unsupported_question_error
from mcpconfig.values.results import (
    Completion,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)

from .paging import fetch_prompts, fetch_resources, fetch_templates
from .resource_parsing import (
    is_sendable,
    parse_completion,
    parse_contents,
    parse_prompt_result,
    parse_prompts,
    parse_resources,
    parse_templates,
)
from .safe_operations import has_capability, require_capability, run_safely


async def list_resources(service: Service, *, acting: Acting | None = None) -> list[Resource]:
    """Return the resources of the service; empty if it offers none."""

    async def act(connection: Connection) -> list[Resource]:
        if not await has_capability(service, connection, "resources"):
            return []
        return parse_resources(await fetch_resources(connection))

    return await run_safely(service, acting, "list_resources", act)


async def list_resource_templates(
    service: Service, *, acting: Acting | None = None
) -> list[ResourceTemplate]:
    """Return the URI templates of the service."""

    async def act(connection: Connection) -> list[ResourceTemplate]:
        if not await has_capability(service, connection, "resources"):
            return []
        return parse_templates(await fetch_templates(connection))

    return await run_safely(service, acting, "list_resource_templates", act)


async def read_resource(
    service: Service, uri: str, *, acting: Acting | None = None
) -> ResourceContents:
    """Return the resource of this URI.

    A URI is a name that the service understands, whatever its scheme: `https://…`, `file:///…`. It
    is sent to that service only; nothing is fetched from it here.
    """
    if not is_sendable(uri):
        raise _uri_error(_("The URI is empty, too long, or has invalid characters."))

    async def act(connection: Connection) -> ResourceContents:
        await require_capability(service, connection, "resources")
        answer = await connection.session.read_resource(uri, allow_input_required=True)
        if isinstance(answer, types.InputRequiredResult):
            raise unsupported_question_error()
        return parse_contents(answer)

    return await run_safely(service, acting, "read_resource", act)


async def list_prompts(service: Service, *, acting: Acting | None = None) -> list[Prompt]:
    """Return the prompts of the service; empty if it offers none."""

    async def act(connection: Connection) -> list[Prompt]:
        if not await has_capability(service, connection, "prompts"):
            return []
        return parse_prompts(await fetch_prompts(connection))

    return await run_safely(service, acting, "list_prompts", act)


async def get_prompt(
    service: Service, name: str, arguments: dict[str, str], *, acting: Acting | None = None
) -> PromptResult:
    """Return the messages of a prompt, with the arguments filled in by the service."""

    async def act(connection: Connection) -> PromptResult:
        await require_capability(service, connection, "prompts")
        answer = await connection.session.get_prompt(name, arguments, allow_input_required=True)
        if isinstance(answer, types.InputRequiredResult):
            raise unsupported_question_error()
        return parse_prompt_result(answer)

    return await run_safely(service, acting, "get_prompt", act)


async def complete(
    service: Service,
    ref: str,
    argument: str,
    value: str,
    context: dict[str, str] | None = None,
    *,
    acting: Acting | None = None,
) -> Completion:
    """Return suggestions for a value that begins with `value`. `ref` is the name of a prompt or a
    URI template; `context` holds the other values that are already known."""
    is_uri = "://" in ref or "{" in ref
    reference = (
        types.ResourceTemplateReference(uri=ref) if is_uri else types.PromptReference(name=ref)
    )

    async def act(connection: Connection) -> Completion:
        await require_capability(service, connection, "completions")
        answer = await connection.session.complete(
            reference, {"name": argument, "value": value}, context
        )
        return parse_completion(answer.completion)

    return await run_safely(service, acting, "complete", act)


def _uri_error(message: str) -> OperationError:
    return OperationError(kind="configuration", message=message, was_sent=False, is_definite=True)
