"""Contents of hostile answers: broken JSON, wrong messages, too much of all."""

import json
from typing import Any

from .misdeeds import DONE, TOOL, Misdeed, Writer, answer, listing, respond

Json = dict[str, Any]

_TEXT = {"type": "text", "text": "x"}


def _body(template: str) -> Misdeed:
    """The body, with `ID` for the request's id."""

    async def send(writer: Writer, message: Json) -> None:
        text = template.replace("ID", str(message.get("id")))
        await respond(writer, body=text.encode("utf-8", "surrogatepass"))

    return send


def _bytes(body: bytes, kind: str = "application/json") -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        await respond(writer, body=body, kind=kind)

    return send


def _result(text: str) -> Misdeed:
    return _body('{"jsonrpc":"2.0","id":ID,"result":%s}' % text)  # noqa: UP031 - braces abound


def _holding(value: str) -> Misdeed:
    """A good result with this value in it."""
    return _result('{"content":[],"structuredContent":{"x":%s},"resultType":"complete"}' % value)  # noqa: UP031


def _blocks(block: Json, count: int) -> Misdeed:
    return _result(json.dumps(DONE | {"content": [block] * count}))


def _tools(*tools: Json) -> Misdeed:
    async def send(writer: Writer, message: Json) -> None:
        await answer(writer, message, listing(list(tools)))

    return send


async def listing_heavy(writer: Writer, message: Json) -> None:
    """Few tools on many pages, each as heavy as a page may be."""
    cursor = str(len(str((message.get("params") or {}).get("cursor", ""))))
    heavy = TOOL | {"description": "x" * 1_500_000}
    await answer(writer, message, listing([heavy], "x" * (int(cursor) + 1)))


async def listing_cursor(writer: Writer, message: Json) -> None:
    last = (message.get("params") or {}).get("cursor", "")
    await answer(writer, message, listing([TOOL], f"{len(last)}" + "x" * 50_000))


async def listing_pair(writer: Writer, message: Json) -> None:
    """Two pages that name each other."""
    last = (message.get("params") or {}).get("cursor", "")
    await answer(writer, message, listing([TOOL], "b" if last == "a" else "a"))


_REDOS = {"type": "string", "pattern": "^(a+)+$"}
_LEVELS: Json = {"d0": {"type": "object"}} | {
    f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2} for level in range(1, 25)
}
_DOUBLING = {"type": "object", "$defs": _LEVELS, "$ref": "#/$defs/d24"}

MESSAGE_MISDEEDS: dict[str, Misdeed] = {
    "empty": _bytes(b""),
    "not_utf8": _body('{"jsonrpc":"2.0","id":ID,"result":{"x":"\udcff"}}'),
    "utf16": _bytes('{"jsonrpc":"2.0"}'.encode("utf-16"), "application/json; charset=utf-16"),
    "plain_text": _bytes(b"{}", "text/plain"),
    "no_type": _bytes(b"{}", ""),
    "batch": _body('[{"jsonrpc":"2.0","id":ID,"result":{}}]'),
    "junk_behind": _body('{"jsonrpc":"2.0","id":ID,"result":{"content":[]}} and more'),
    "old_version": _body('{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}'),
    "id_null": _body('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}'),
    "id_float": _body('{"jsonrpc":"2.0","id":1.5,"result":{"content":[]}}'),
    "id_list": _body('{"jsonrpc":"2.0","id":[1],"result":{"content":[]}}'),
    "id_other": _body('{"jsonrpc":"2.0","id":987654,"result":{"content":[]}}'),
    "id_twice": _body('{"jsonrpc":"2.0","id":1,"id":987654,"result":{"content":[]}}'),
    "notification_only": _body('{"jsonrpc":"2.0","method":"notifications/progress"}'),
    "request_only": _body('{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}'),
    "result_list": _result("[]"),
    "result_null": _result("null"),
    "result_wrong": _result('{"content":"done","resultType":"complete"}'),
    "result_unknown": _result('{"content":[],"resultType":"something else"}'),
    "block_unknown": _blocks({"type": "hologram"}, 1),
    "error_wrong": _body('{"jsonrpc":"2.0","id":ID,"error":"no"}'),
    "error_long": _body(
        '{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"%s"}}' % ("x" * 900_000)  # noqa: UP031
    ),
    "surrogate": _holding('"\\ud800"'),
    "digits": _holding("1" * 5_000),
    "depth": _holding("[" * 50_000),
    "dust_objects": _holding("[" + ",".join(["{}"] * 1_000_000) + "]"),
    "dust_numbers": _holding("[" + ",".join(["1"] * 1_500_000) + "]"),
    "dust_lists": _holding("[" + ",".join(["[]"] * 1_000_000) + "]"),
    "dust_in_quotes": _holding('["\\"",' + ",".join(['"","\\\\"'] * 400_000) + "]"),
    "blocks_many": _blocks(_TEXT, 30_000),
    "blocks_thousands": _blocks(_TEXT, 5_000),
    "blocks_thousands_failed": _result(
        json.dumps(DONE | {"content": [_TEXT] * 5_000, "isError": True})
    ),
    "blocks_wrong": _blocks({"type": "hologram"}, 3_000),
    "blocks_wrong_many": _blocks({"type": "hologram"}, 20_000),
    "long_text": _blocks({"type": "text", "text": "x" * 3_900_000}, 1),
    "long_commas": _blocks({"type": "text", "text": '{[,\\"]}' * 300_000}, 1),
    "nul": _holding('"a\\u0000b"'),
    "infinite": _holding("1e999"),
    "nan": _holding("NaN"),
    "keys_twice": _result('{"content":"no","content":[],"resultType":"complete"}'),
    "listing_heavy": listing_heavy,
    "listing_cursor": listing_cursor,
    "listing_pair": listing_pair,
    "listing_redos": _tools(
        TOOL | {"inputSchema": {"type": "object", "properties": {"x": _REDOS}}},
        TOOL | {"name": "out", "outputSchema": {"type": "object", "properties": {"x": _REDOS}}},
    ),
    "listing_doubling": _tools(TOOL | {"inputSchema": _DOUBLING, "outputSchema": _DOUBLING}),
    "listing_ring": _tools(TOOL | {"outputSchema": {"type": "object", "$ref": "#"}}),
    "listing_unnamed": _tools(TOOL | {"name": ""}, TOOL | {"name": "x" * 300}, {"title": "none"}),
}
