"""Services whose calls pause before their effect, and whose effects can be counted: one asks a
question, one continues as a task. The one that requires a sign-in is `effects` behind the
authorization of the vault."""

from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, MCPServer, RequestStateSecurity, Resolve
from pydantic import BaseModel

from .effects import Effects
from .eras import Era, speaking
from .errands import Errands, Json
from .serving import Application


class Whom(BaseModel):
    name: str


async def _whom(context: Context) -> Elicit[Whom]:
    return Elicit("For whom?", Whom)


def asker(effects: Effects, era: Era) -> Application:
    """In the modern era it asks between two calls, in the handshake era while a call runs."""
    security = RequestStateSecurity(keys=[b"k" * 32], ttl=600)
    made: MCPServer[None] = MCPServer(
        "asker", version="1.0", log_level="CRITICAL", request_state_security=security
    )

    @made.tool()
    async def ask_thing(name: str, whom: Annotated[Whom, Resolve(_whom)]) -> str:
        """Changes a thing for somebody."""
        effects.record(f"ask_thing {name}")
        return f"{name} is changed for {whom.name}"

    return speaking(era, made.streamable_http_app())


class CountedErrands(Errands):
    """A task has its effect when it begins, and is done after two polls."""

    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self.effects = effects
        self.looks: dict[str, int] = {}

    def start(self) -> Json:
        task = super().start()
        task["pollIntervalMs"] = 1_000
        return task

    def answer(self, method: str, params: Json, headers: dict[str, str]) -> Json:
        if method == "tools/call":
            self.effects.record(f"errand {params['arguments']['name']}")
        if method == "tasks/get":
            self._look(params["taskId"])
        return super().answer(method, params, headers)

    def _look(self, task_id: str) -> None:
        self.looks[task_id] = self.looks.get(task_id, 0) + 1
        if self.looks[task_id] == 2:
            self.done(task_id, "The errand is done.")
