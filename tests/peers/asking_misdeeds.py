"""Questions that no service should ask, and long tasks that are none."""

from typing import Any

from .misdeeds import Misdeed, Writer, answer


def _result(result: dict[str, Any]) -> Misdeed:
    async def deed(writer: Writer, message: dict[str, Any]) -> None:
        await answer(writer, message, result)

    return deed


def _asks(request: dict[str, Any], *, times: int = 1) -> Misdeed:
    requests = {f"question-{number}": request for number in range(times)}
    return _result({"resultType": "input_required", "inputRequests": requests})


def _form(field: dict[str, Any], *, times: int = 1) -> dict[str, Any]:
    fields = {f"field-{number}": field for number in range(times)}
    schema = {"type": "object", "properties": fields}
    params = {"mode": "form", "message": "Well?", "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _page(url: str) -> dict[str, Any]:
    params = {"mode": "url", "message": "Look here.", "url": url}
    return {"method": "elicitation/create", "params": params}


def _task(**said: Any) -> Misdeed:
    task = {"taskId": "7", "status": "working", "createdAt": "now", "lastUpdatedAt": "now"}
    return _result(task | {"ttlMs": None, "resultType": "task"} | said)


_SAMPLING = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}

ASKING_MISDEEDS: dict[str, Misdeed] = {
    "asks_sampling": _asks(_SAMPLING),
    "asks_roots": _asks({"method": "roots/list"}),
    "asks_oddly": _asks({"method": "elicitation/demand", "params": {"message": "Money!"}}),
    "asks_nested": _asks(_form({"type": "object", "properties": {}})),
    "asks_inside": _asks(_page("http://10.0.0.1/admin")),
    "asks_much": _asks(_form({"type": "string"}), times=11),
    "asks_at_length": _asks(_form({"type": "string", "enum": ["a"] * 20}, times=1_000)),
    "asks_with_a_nul": _result({"resultType": "input_required", "requestState": "a\0b"}),
    "asks_with_a_load": _result({"resultType": "input_required", "requestState": "x" * 300_000}),
    "task_without_an_id": _task(taskId=""),
    "task_with_a_long_id": _task(taskId="7" * 501),
    "task_in_no_state": _task(status="dreaming"),
    "task_in_a_hurry": _task(pollIntervalMs=0.001, statusMessage="x\n" * 5_000),
    "task_for_ever": _task(pollIntervalMs=10**12),
}
