"""The world of an attack: a person, a service that counts what reaches it, and ways to press
buttons. What an attack achieved is what was executed beyond what was meant to be."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from django.test import Client

from chatapp.conversations import intake
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Member, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.models import Service
from mcpconfig.operations.tool_listing import fetch_tools
from mcpconfig.services.tool_definitions import confirm_tools, list_current_tools
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.peers.serving import Served
from tests.peers.turncoat import Turncoat
from tests.scripted import calls, text
from tests.turns.acts import wait_for_rest

DELETE = ("things_delete_thing", '{"name":"lamp"}')
LABEL = ("things_label_thing", '{"name":"lamp"}')
READ = ("things_read_thing", '{"name":"lamp"}')


@dataclass
class World:
    """`meant` is how many executions the persons of the story really want."""

    runtime: EngineRuntime
    turn: Turn
    owner: Member
    service: Service
    server: Turncoat
    served: Served
    meant: int = 0
    misrouted: list[str] = field(default_factory=list)

    @property
    def executions(self) -> list[dict[str, Any]]:
        """What reached the server as a call of a tool, in order."""
        seen = self.served.arrivals.seen
        return [json.loads(each.body) for each in seen if each.rpc_method == "tools/call"]

    @property
    def harm(self) -> int:
        """How often something ran that nobody wanted, or for whom nobody wanted it."""
        return max(0, len(self.executions) - self.meant) + len(self.misrouted)

    # --- turns ---------------------------------------------------------------------------------
    async def asked(self, *wanted: tuple[str, str]) -> list[ToolCall]:
        """The calls of a turn whose model wanted these, once it has come to rest."""
        scripted.scenes[:] = [calls(*wanted), text("So it is.")]
        await wait_for_rest(self.runtime, self.turn)
        return await self.calls()

    async def asked_again(self, *wanted: tuple[str, str]) -> list[ToolCall]:
        """The same in a new chat of this person."""
        return await self.asked_by(self.owner, *wanted)

    async def asked_by(self, person: Member, *wanted: tuple[str, str]) -> list[ToolCall]:
        """The same in a new chat of somebody. A new turn asks the model at once."""
        scripted.scenes[:] = [calls(*wanted), text("So it is.")]
        self.turn = await in_database(
            partial(intake.receive, person, None, text="Again", model=scripted.MODEL)
        )
        await self.rest()
        return await self.calls()

    async def rest(self) -> None:
        await wait_for_rest(self.runtime, self.turn)

    async def calls(self) -> list[ToolCall]:
        rows = ToolCall.objects.select_related("approval", "service", "definition")
        return await in_database(lambda: list(rows.filter(turn=self.turn)))

    async def tools_fetched(self) -> None:
        """What happens whenever a list has grown old, or an admin fetches it."""
        service = await in_database(Service.objects.get, pk=self.service.pk)
        await fetch_tools(service, refresh=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, nothing that is decided runs yet: the time between a click and its execution."""
        current_runtime().wake_listeners.remove(self.runtime.engine.wake)
        try:
            yield
        finally:
            current_runtime().wake_listeners.append(self.runtime.engine.wake)

    # --- pages ---------------------------------------------------------------------------------
    async def press(
        self, call: ToolCall, client: Client | None = None, /, **changes: str | None
    ) -> int:
        """Press *Allow once* on the card of this call, with these fields changed; the status."""
        fields = {"decision": "run", "version": call.approval.binding} | changes
        given = {name: value for name, value in fields.items() if value is not None}
        return await self.posted(f"/approvals/{call.pk}/decide", given, client)

    async def posted(
        self, address: str, given: dict[str, Any], client: Client | None = None
    ) -> int:
        def post() -> int:
            return int((client or signed_in(self.owner)).post(address, given).status_code)

        return await in_database(post)

    async def page(self, address: str) -> Element:
        def get() -> Element:
            return parse(signed_in(self.owner).get(address).content.decode())

        return await in_database(get)

    async def card(self, call: ToolCall) -> Element:
        page = await self.page(f"/approvals/{call.pk}/")
        return page.one("section", id=f"tool-call-{call.pk}")


Abuse = Callable[[World], Awaitable[None]]
Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`threat` is a name in docs/threats.md; `plant` takes the one defence away."""

    threat: str
    words: str
    abuse: Abuse
    plant: Plant

    def __str__(self) -> str:
        return f"{self.threat} {self.words}"


async def attempt(act: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Do it in the database; whether it was not refused."""
    try:
        await in_database(partial(act, *args, **kwargs))
    except Refused:
        return False
    return True


def at_home(service: Service) -> None:
    """Every tool of the service as an admin has confirmed it."""
    confirm_tools(list_current_tools(service))
