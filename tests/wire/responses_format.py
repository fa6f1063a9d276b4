"""The events of one scripted answer in the form of OpenAI's Responses API."""

import itertools
from collections.abc import Iterator
from typing import Any

from .demands.openai import check_responses
from .form import Format
from .script import Answer, Tool, pieces

Event = dict[str, Any]
Item = dict[str, Any]


def responses_events(answer: Answer, model: str) -> Iterator[Event | str]:
    """Events as dictionaries, numbered as the real ones; text is written as it is (comments)."""
    numbers = itertools.count()
    for event in _Story(answer, model).events():
        yield event if isinstance(event, str) else {**event, "sequence_number": next(numbers)}


USAGE = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 150,
}


class _Story:
    def __init__(self, answer: Answer, model: str) -> None:
        self._answer = answer
        self._model = model
        self._output: list[Item] = []
        self._calls = 0

    def events(self) -> Iterator[Event | str]:
        answer = self._answer
        yield {"type": "response.created", "response": self._response("in_progress")}
        yield {"type": "response.in_progress", "response": self._response("in_progress")}
        if answer.is_sloppy:
            yield from self._sloppy()
            return
        if answer.is_strange:
            yield from self._strange()
        for number, said in enumerate(answer.rounds, start=1):
            if said.reasoning:
                yield from self._reasoning(said, number)
            if said.text or said.refusal:
                yield from self._message(said, number)
            if said.tools:
                yield from self._tools(said)
        if answer.in_stream_error:
            yield {"type": "error", "param": None, **answer.in_stream_error}
            return
        yield self._terminal()

    def _response(self, status: str, **more: Any) -> Event:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_790_000_000,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "model": self._model,
            "status": status,
            "output": list(self._output),
            "error": None,
            "incomplete_details": None,
            "usage": None,
            **more,
        }

    def _terminal(self) -> Event:
        reason = {"length": "max_output_tokens"}.get(self._answer.finish, self._answer.finish)
        if not reason:
            done = self._response("completed", usage=USAGE)
            return {"type": "response.completed", "response": done}
        details = {"reason": reason}
        cut = self._response("incomplete", usage=USAGE, incomplete_details=details)
        return {"type": "response.incomplete", "response": cut}

    def _strange(self) -> Iterator[Event | str]:
        """A comment, an event of the future, and a tool that the provider would run itself."""
        yield ": a comment keeps the line open\n\n"
        yield {"type": "response.something.new", "delta": "not for anybody", "output_index": 0}
        hosted: Item = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
        hosted |= {"action": {"type": "search", "query": "weather"}}
        yield from self._item(hosted, [{"type": "response.web_search_call.searching"}])

    def _sloppy(self) -> Iterator[Event]:
        """What gateways get wrong: empty deltas, whole items in the last event only, no usage."""
        answer = self._answer
        said = [*self._reasoning(answer, 1), *self._message(answer, 1), *self._tools(answer)]
        yield {"type": "response.output_text.delta", "delta": None, "output_index": 0}
        yield {"type": "response.output_item.added", "item": None}
        response = self._response("completed", output=_items_done(said))
        yield {"type": "response.completed", "response": response}

    def _item(
        self, item: Item, between: list[Event], started: Item | None = None
    ) -> Iterator[Event]:
        place = len(self._output)
        first = {**(started or item), "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": place, "item": first}
        for event in between:
            yield {"output_index": place, "item_id": item["id"], **event}
        self._output.append(item)
        yield {"type": "response.output_item.done", "output_index": place, "item": item}

    def _reasoning(self, said: Answer, number: int) -> Iterator[Event]:
        text = said.reasoning
        kind = "response.reasoning_summary"
        item = {
            "id": f"rs_{number}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "gAAAA-sealed",
        }
        deltas = [
            {"type": f"{kind}_text.delta", "summary_index": 0, "delta": piece}
            for piece in pieces(text, self._answer.chunk)
        ]
        at = {"summary_index": 0}
        none, part = ({"type": "summary_text", "text": words} for words in ("", text))
        opened = {"type": f"{kind}_part.added", **at, "part": none}
        closed = [
            {"type": f"{kind}_text.done", **at, "text": text},
            {"type": f"{kind}_part.done", **at, "part": part},
        ]
        partial = {**item, "summary": [], "encrypted_content": "gAAAA-part"}
        yield from self._item(item, [opened, *deltas, *closed], partial)

    def _message(self, spoken: Answer, number: int) -> Iterator[Event]:
        parts: list[Item] = []
        between: list[Event] = []
        for kind, key, text in (
            ("output_text", "text", spoken.text),
            ("refusal", "refusal", spoken.refusal),
        ):
            if text:
                is_text = kind == "output_text"
                more: Item = {"annotations": [], "logprobs": []} if is_text else {}
                part, none = ({"type": kind, key: words, **more} for words in (text, ""))
                at: Event = {"content_index": len(parts)}
                worded = at | ({"logprobs": []} if is_text else {})
                between.append({"type": "response.content_part.added", **at, "part": none})
                between += [
                    {"type": f"response.{kind}.delta", **worded, "delta": piece}
                    for piece in pieces(text, self._answer.chunk)
                ]
                between.append({"type": f"response.{kind}.done", **worded, key: text})
                between.append({"type": "response.content_part.done", **at, "part": part})
                parts.append(part)
        item: Item = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        item |= {"status": "completed", "phase": "final_answer", "content": parts}
        yield from self._item(item, between, {**item, "content": []})

    def _tools(self, said: Answer) -> Iterator[Event]:
        place = len(self._output)
        rows = [self._call(tool, place + index) for index, tool in enumerate(said.tools)]
        self._output += [row[-1]["item"] for row in rows]
        self._calls += len(rows)
        if self._answer.is_interleaved:
            turns = itertools.zip_longest(*rows)
            yield from (event for turn in turns for event in turn if event is not None)
        else:
            yield from itertools.chain(*rows)

    def _call(self, tool: Tool, place: int) -> list[Event]:
        index = self._calls + place - len(self._output)
        arguments = tool.arguments_text
        item = {"id": f"fc_{index}", "type": "function_call", "name": tool.name}
        item |= {"call_id": tool.id or f"call_{index}"}
        at = {"output_index": place, "item_id": item["id"]}
        kind = "response.function_call_arguments"
        started = {**item, "arguments": "", "status": "in_progress"}
        is_cut = self._answer.finish == "length" and index == len(self._answer.all_tools) - 1
        done = {**item, "arguments": arguments, "status": "incomplete" if is_cut else "completed"}
        return [
            {"type": "response.output_item.added", "output_index": place, "item": started},
            *(
                {"type": f"{kind}.delta", **at, "delta": piece}
                for piece in pieces(arguments, self._answer.chunk)
            ),
            {"type": f"{kind}.done", **at, "name": tool.name, "arguments": arguments},
            {"type": "response.output_item.done", "output_index": place, "item": done},
        ]


def _items_done(events: list[Event]) -> list[Item]:
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


RESPONSES = Format(
    path="/v1/responses",
    root="/v1",
    events=responses_events,
    demands=check_responses,
)
