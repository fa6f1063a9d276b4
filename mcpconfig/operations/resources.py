"""The operations that read: resources, prompts, and proposals for their values. All are safe."""

import mcp_types as types

from .acting import Acting
from .asking import ask, demand, offers
from .client import Connection
from .errors import OperationError, asks_a_question
from .models import Service
from .paging import listed_prompts, listed_resources, listed_templates
from .reading_intake import (
    filled_prompt,
    is_sendable,
    kept_contents,
    prompts,
    proposals,
    resources,
    templates,
)
from .results import (
    Completion,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
)


async def list_resources(service: Service, *, acting: Acting | None = None) -> list[Resource]:
    """What the service lets be read; an empty list if it offers nothing of the kind."""

    async def act(connection: Connection) -> list[Resource]:
        if not await offers(service, connection, "resources"):
            return []
        return resources(await listed_resources(connection))

    return await ask(service, acting, "list_resources", act)


async def list_resource_templates(
    service: Service, *, acting: Acting | None = None
) -> list[ResourceTemplate]:
    """The patterns of URIs that can be read beside those that are listed."""

    async def act(connection: Connection) -> list[ResourceTemplate]:
        if not await offers(service, connection, "resources"):
            return []
        return templates(await listed_templates(connection))

    return await ask(service, acting, "list_resource_templates", act)


async def read_resource(
    service: Service, uri: str, *, acting: Acting | None = None
) -> ResourceContents:
    """What is at a URI, as the service tells it.

    A URI is a name that the service understands, whatever its scheme: `https://…`, `file:///…`. It
    is sent to that service and nowhere else; nothing is ever fetched from it here.
    """
    if not is_sendable(uri):
        raise _wrong("The URI is empty, too long, or holds characters that a URI cannot have.")

    async def act(connection: Connection) -> ResourceContents:
        await demand(service, connection, "resources")
        answer = await connection.client.session.read_resource(uri, allow_input_required=True)
        if isinstance(answer, types.InputRequiredResult):
            raise asks_a_question()
        return kept_contents(answer)

    return await ask(service, acting, "read_resource", act)


async def list_prompts(service: Service, *, acting: Acting | None = None) -> list[Prompt]:
    """The prompts that the service has prepared; an empty list if it has none."""

    async def act(connection: Connection) -> list[Prompt]:
        if not await offers(service, connection, "prompts"):
            return []
        return prompts(await listed_prompts(connection))

    return await ask(service, acting, "list_prompts", act)


async def get_prompt(
    service: Service, name: str, arguments: dict[str, str], *, acting: Acting | None = None
) -> PromptResult:
    """A prompt's messages with the arguments filled in by the service."""

    async def act(connection: Connection) -> PromptResult:
        await demand(service, connection, "prompts")
        answer = await connection.client.session.get_prompt(
            name, arguments, allow_input_required=True
        )
        if isinstance(answer, types.InputRequiredResult):
            raise asks_a_question()
        return filled_prompt(answer)

    return await ask(service, acting, "get_prompt", act)


async def complete(
    service: Service,
    ref: str,
    argument: str,
    value: str,
    context: dict[str, str] | None = None,
    *,
    acting: Acting | None = None,
) -> Completion:
    """Proposals for a value of which the beginning is there. `ref` is a prompt's name or a resource
    template's URI; `context` holds the other values that are known already."""
    is_uri = "://" in ref or "{" in ref
    reference = (
        types.ResourceTemplateReference(uri=ref) if is_uri else types.PromptReference(name=ref)
    )

    async def act(connection: Connection) -> Completion:
        await demand(service, connection, "completions")
        answer = await connection.client.complete(
            reference, {"name": argument, "value": value}, context
        )
        return proposals(answer.completion)

    return await ask(service, acting, "complete", act)


def _wrong(message: str) -> OperationError:
    return OperationError(kind="configuration", message=message, was_sent=False, is_definite=True)
