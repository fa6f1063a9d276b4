"""Lists the services that a person may use and their state, never their configuration."""

from django.utils.translation import gettext_noop
from pydantic import BaseModel, Field

from chatapp.tools.blueprint import EVERYWHERE, CoreTool, Documentation, Example, Strict
from chatapp.tools.context import Context
from mcpconfig.models import Service
from mcpconfig.oauth.sign_in_status import ConnectionState, SignInStatus, get_sign_in_statuses
from mcpconfig.services.sharing import SharedView, build_shared_views
from mcpconfig.values.acting import Acting

MOST = 100
DESCRIPTION = 200


class Input(Strict):
    pass


class Known(BaseModel):
    name: str
    title: str
    description: str
    state: str = Field(description="“ready”, or what keeps it from being used.")
    tools: int | None = Field(description="How many it offers; null where that is not told.")


class Output(BaseModel):
    services: list[Known]
    more: int = Field(description="How many others are not listed here.")


def handle(context: Context, asked: Input) -> Output:
    usable = Service.objects.for_member(context.person)
    shown = list(usable.select_related("identity_provider")[:MOST])
    views = build_shared_views(shown, context.person)
    stands = get_sign_in_statuses(shown, Acting.of(context.person))
    listed = [
        _describe_service(shared, stands[service.pk])
        for service, shared in zip(shown, views, strict=True)
    ]
    return Output(services=listed, more=usable.count() - len(listed))


def _describe_service(shared: SharedView, stands: SignInStatus) -> Known:
    return Known(
        name=shared.name,
        title=shared.title,
        description=shared.description[:DESCRIPTION],
        state=_describe_state(shared, stands),
        tools=None if shared.tools is None else len(shared.tools),
    )


def _describe_state(shared: SharedView, stands: SignInStatus) -> str:
    if stands.state == ConnectionState.NOT_CONNECTED:
        return "waits for an admin to sign in" if stands.is_shared else "waits for your sign-in"
    if stands.state == ConnectionState.CONNECT_AGAIN:
        return "the sign-in has to be renewed"
    return "cannot be used now" if shared.is_out_of_use else "ready"


def render_text(output: Output) -> str:
    if not output.services:
        return "This person may use no service."
    lines = [f"- {each.name} ({each.title}): {each.state}" for each in output.services]
    more = [f"{output.more} more are not listed."] if output.more else []
    return "\n".join([*lines, *more])


TOOL = CoreTool(
    name="list-services",
    title=gettext_noop("List services"),
    description="List the services that this person may use, and whether each works now.",
    input=Input,
    output=Output,
    risk="low",
    risk_reason=gettext_noop("It only reads."),
    modes=EVERYWHERE,
    handler=handle,
    render_text=render_text,
    documentation=Documentation(
        examples=(
            Example(
                input={},
                output={
                    "services": [
                        {
                            "name": "notebook",
                            "title": "Demo notebook",
                            "description": "Notes to try things with.",
                            "state": "ready",
                            "tools": 8,
                        }
                    ],
                    "more": 0,
                },
            ),
        ),
        limitations="The state is the last known one: no service is asked.",
        limits=f"At most {MOST} services; descriptions are cut at {DESCRIPTION} characters.",
        rights="Every member, about the services that an admin lets them use.",
        errors="None of its own.",
        clients="Addresses, credentials and settings are never in the result.",
    ),
)
