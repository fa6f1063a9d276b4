"""A server with the extension for long tasks, written from its specification, because the SDK has
none. A test sets the state of a task; nothing changes by itself."""

import json
from typing import Any

from .eras import speaking
from .serving import Application, Message

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

Json = dict[str, Any]

NO_SUCH_TASK = {"code": -32602, "message": "Failed to retrieve task: Task not found"}
UNDECLARED = {
    "code": -32021,
    "message": "Missing required client capability",
    "data": {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
}
MISROUTED = {"code": -32001, "message": "Mcp-Name is not the task's id"}
FORM = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "What is your name?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    },
}
TOOL = {"name": "errand", "inputSchema": {"type": "object"}}


class Errands:
    """The tasks by their ids, and the requests of the client."""

    def __init__(self) -> None:
        self.tasks: dict[str, Json] = {}
        self.answers: list[Json] = []
        self.cancelled: list[str] = []

    def start(self) -> Json:
        task_id = f"errand {len(self.tasks) + 1}"
        self.tasks[task_id] = {
            "taskId": task_id,
            "status": "working",
            "statusMessage": "On the way.",
            "createdAt": "2026-11-21T10:00:00Z",
            "lastUpdatedAt": "2026-11-21T10:00:00Z",
            "ttlMs": 3_600_000,
            "pollIntervalMs": 2_500,
        }
        return self.tasks[task_id]

    def goes_on(self, task_id: str, **said: Any) -> None:
        self.tasks[task_id] |= said

    def done(self, task_id: str, text: str, *, is_error: bool = False) -> None:
        content = [{"type": "text", "text": text}]
        result = {"content": content, "isError": is_error, "structuredContent": {"text": text}}
        self.goes_on(task_id, status="completed", result=result)

    def answer(self, method: str, params: Json, headers: dict[str, str]) -> Json:
        """Return the result, or the error, of a request."""
        match method:
            case "server/discover":
                return {"result": _discovery()}
            case "tools/list":
                return {"result": {"tools": [TOOL], "ttlMs": 60_000, "cacheScope": "private"}}
        if EXTENSION not in params["_meta"][CAPABILITIES].get("extensions", {}):
            return {"error": UNDECLARED}
        if method == "tools/call":
            return {"result": self.start() | {"resultType": "task"}}
        return self._of_task(method, params, headers)

    def _of_task(self, method: str, params: Json, headers: dict[str, str]) -> Json:
        task_id = params["taskId"]
        if headers.get("mcp-name") != task_id:
            return {"error": MISROUTED}
        if task_id not in self.tasks:
            return {"error": NO_SUCH_TASK}
        match method:
            case "tasks/update":
                self.answers.append(params["inputResponses"])
                return {"result": {}}
            case "tasks/cancel":
                self.cancelled.append(task_id)
                return {"result": {}}
        return {"result": self.tasks[task_id]}


def _discovery() -> Json:
    return {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "errands", "version": "1"}},
    }


def application(errands: Errands) -> Application:
    async def serve(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return
        asked = json.loads((await receive())["body"])
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        said = errands.answer(asked["method"], asked.get("params", {}), headers)
        if "result" in said:
            said = {"result": {"resultType": "complete"} | said["result"]}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | said).encode()
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        await send({"type": "http.response.body", "body": body})

    return speaking("modern", serve)
