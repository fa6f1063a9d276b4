"""Hostile answers to reads of resources and prompts."""

import base64
import json
from itertools import count
from typing import Any

from .misdeeds import Misdeed, Writer, answer, hang, html, respond

CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
LISTS = {
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "name"),
}
READING = {*LISTS, "resources/read", "prompts/get", "completion/complete"}

Json = dict[str, Any]

_page_numbers = count()


def _page(message: Json, identities: list[str], cursor: str | None = None) -> Json:
    """A page of the list that was asked for."""
    key, identity = LISTS[message["method"]]
    page = _whole({key: [{"name": "entry", identity: value} for value in identities]})
    return page | ({"nextCursor": cursor} if cursor else {})


def _whole(result: Json) -> Json:
    return result | {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}


async def endless(writer: Writer, message: Json) -> None:
    await answer(writer, message, _page(message, ["a:b"], f"page-{next(_page_numbers)}"))


async def cycle(writer: Writer, message: Json) -> None:
    await answer(writer, message, _page(message, ["a:b"], "again"))


async def flood(writer: Writer, message: Json) -> None:
    await answer(writer, message, _page(message, [f"a:{number}" for number in range(5_001)]))


async def odd(writer: Writer, message: Json) -> None:
    odd_ones = ["", "a:b\r\nX-Evil: 1", "a:" + "x" * 9_000, "a:\x00", "a:twice", "a:twice"]
    await answer(writer, message, _page(message, odd_ones))


def _contents(*parts: Json) -> Misdeed:
    async def tell(writer: Writer, message: Json) -> None:
        await answer(writer, message, _whole({"contents": list(parts)}))

    return tell


def _result(result: Json) -> Misdeed:
    async def tell(writer: Writer, message: Json) -> None:
        await answer(writer, message, _whole(result))

    return tell


async def shapes(writer: Writer, message: Json) -> None:
    """The right fields with the wrong things inside."""
    wrong: Json = {"contents": [{"uri": 7}], "messages": "hello", "completion": ["x"]}
    lists: Json = {"resources": {}, "resourceTemplates": [None], "prompts": [{"title": "x"}]}
    await answer(writer, message, _whole(wrong | lists))


async def asks(writer: Writer, message: Json) -> None:
    await answer(writer, message, {"resultType": "input_required", "requestState": "x"})


def _lacking(data: Any) -> Misdeed:
    """Refuse because the client lacks a capability."""

    async def refuse(writer: Writer, message: Json) -> None:
        error = {"code": -32021, "message": "Missing required client capability", "data": data}
        body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        await respond(writer, status=400, body=json.dumps(body).encode())

    return refuse


async def unknown(writer: Writer, message: Json) -> None:
    body = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"Method not found"}}'
    await respond(writer, status=404, body=body % message["id"])


async def h500(writer: Writer, message: Json) -> None:
    await respond(writer, status=500, kind="text/plain", body=b"no")


_BLOB = base64.b64encode(b"x" * (2 * 1024 * 1024 + 1)).decode()
_TEXT = "x" * 1_999_999 + "é" * 200_000
_MESSAGE = {"role": "user", "content": {"type": "text", "text": "y" * 700_000}}

READING_MISDEEDS: dict[str, Misdeed] = {
    "reading_endless": endless,
    "reading_cycle": cycle,
    "reading_flood": flood,
    "reading_odd": odd,
    "reading_long": _contents({"uri": "a:b", "text": _TEXT}, {"uri": "a:c", "text": "!"}),
    "reading_heavy": _contents({"uri": "a:b", "blob": _BLOB}, {"uri": "a:c", "text": "kept"}),
    "reading_too_much": _contents({"uri": "a:b", "text": "x" * 5_000_000}),
    "reading_crowd": _contents(*[{"uri": "a:b", "text": "x"}] * 1_001),
    "reading_meta": _contents(
        {"uri": "a:b", "text": "", "_meta": {"ui": {"prefersBorder": True}}},
        {"uri": "a:c", "text": "", "_meta": {"wide": list(range(9_000))}},
    ),
    "reading_arguments": _result(
        {"prompts": [{"name": "p", "arguments": [{"name": f"a{n}"} for n in range(101)]}]}
    ),
    "reading_bad_blob": _contents({"uri": "a:b", "blob": "%%%"}),
    "reading_colours": _contents({"uri": "a:b", "text": "\x1b[2Jall\u202e is well\tand good"}),
    "reading_long_prompt": _result({"messages": [_MESSAGE, _MESSAGE]}),
    "reading_many": _result({"completion": {"values": [str(n) for n in range(500)]}}),
    "reading_wordy": _result({"completion": {"values": ["short", "x" * 9_000]}}),
    "reading_shapes": shapes,
    "reading_asks": asks,
    "reading_needs_a_person": _lacking({"requiredCapabilities": {"elicitation": {"form": {}}}}),
    "reading_needs_a_model": _lacking({"requiredCapabilities": {"sampling": {}}}),
    "reading_needs_more": _lacking({"requiredCapabilities": {"extensions": {"x.example/y": {}}}}),
    "reading_needs_oddly": _lacking(["elicitation"]),
    "reading_unknown": unknown,
    "reading_h500": h500,
    "reading_html": html,
    "reading_hang": hang,
}
