"""Adds a service without sign-in, after a connection test. Services that need a secret are added
in the admin, so that no secret passes through a chat."""

from channels.db import database_sync_to_async
from django.db import transaction
from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field

from chatapp.tools.blueprint import ACTING, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context, ToolError
from mcpconfig.models import Service
from mcpconfig.operations.lazy import operations
from mcpconfig.services.service_form import ServiceForm
from mcpconfig.values.errors import OperationError

# Names of the input that differ from those of the form.
FIELDS = {"allows_private_addresses": "is_internal"}


class Input(Strict):
    name: str = Field(description="Short name; prefixes its tools.", pattern=r"^[a-z0-9-]{1,60}$")
    url: str = Field(description="https://…", pattern=r"^https?://", max_length=2000)
    title: str = Field(default="", max_length=100, description="What people read.")
    is_internal: bool = Field(
        default=False, description="Allow http:// and addresses in the server's own network."
    )


class Output(BaseModel):
    name: str
    server: str = Field(description="What it calls itself.")
    tools: int


async def prepare(context: Context, asked: Input) -> Output:
    """Test the connection. Nothing is stored, so it may run again after a worker has died."""
    await database_sync_to_async(_build_form)(asked)
    tried = Service(
        name=asked.name, url=asked.url, allows_private_addresses=asked.is_internal, reconnects=False
    )
    try:
        report = await operations.test_connection(tried)
    except OperationError as error:
        said = " ".join(filter(None, [error.message, error.hint]))
        raise ToolError(field="url", message=f"It was not added. {said}") from None
    return Output(name=asked.name, server=report.server_name[:200], tools=report.tool_count)


def handle(context: Context, asked: Input) -> Output:
    if not isinstance(context.prepared, Output):
        raise ToolError(message="The connection was not tried, so it was not added.")
    form = _build_form(asked)
    with transaction.atomic():
        form.save()
        form.store_secrets()
    return context.prepared


def _build_form(asked: Input) -> ServiceForm:
    """Return the admin's form, filled in. Raise ToolError with its first problem."""
    said = {
        "name": asked.name,
        "url": asked.url,
        "title": asked.title,
        "allows_private_addresses": asked.is_internal,
        "is_open": True,
    }
    form = ServiceForm(DEFAULTS | said, instance=Service())
    for field, problems in form.errors.items():
        message = " ".join(map(str, problems))
        raise ToolError(field=FIELDS.get(field, field), message=message)
    return form


DEFAULTS = {
    field.name: field.get_default()
    for field in Service._meta.concrete_fields
    if field.name in ServiceForm.Meta.fields and not field.is_relation
}


def render_text(output: Output) -> str:
    called = f", which calls itself {output.server}" if output.server else ""
    return (
        f"The service {output.name}{called} is added with {output.tools} tools. Only admins can "
        "use it until one chooses in its settings who else may. Each tool asks until an admin has "
        "confirmed it."
    )


TOOL = CoreTool(
    name="add-service",
    title=gettext_noop("Add a service"),
    description="Add a service (MCP server) that needs no sign-in. The connection is tried first.",
    input=Input,
    output=Output,
    risk="high",
    risk_reason=gettext_noop("It connects this server to another service."),
    modes=ACTING,
    handler=handle,
    render_text=render_text,
    prepare=prepare,
    is_for_admins=True,
    calls_a_minute=6,
    documentation=Documentation(
        examples=(
            Example(
                input={"name": "weather", "url": "https://weather.example.com/mcp"},
                output={"name": "weather", "server": "Weather", "tools": 4},
            ),
        ),
        limitations=(
            "Only services without a sign-in: one with a token, headers or OAuth is added in the "
            "settings, so that no secret passes through a chat. Only admins can use the "
            "service until one chooses in its settings who else may."
        ),
        limits="The time and size limits of every connection to a service.",
        rights="Admins only. It asks first, because it connects this server to another service.",
        errors="Where the connection fails, or the name is taken, nothing is stored.",
        clients="Its tools count from the next message on, and ask until an admin confirms them.",
    ),
)
