"""Reads the outline of an answer that is too large to keep: whether its JSON-RPC response is
complete, and whether it is a result or an error. Takes constant memory for any input."""

import json
import re
from typing import Literal, Protocol, cast

from mcpconfig.values.limits import LIMITS

Verdict = Literal["succeeded", "failed", "refused"]

# `_IN_STRING` and `_LINE` match at every place, also nothing.
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_TOKEN = re.compile(rb'["{}\[\]:,]|[^\s"{}\[\]:,]++')
_LINE = re.compile(rb"([^\r\n]*+)(\r\n|\n|\r|\Z)")
_CLOSING = {ord("}"): ord("{"), ord("]"): ord("[")}
_MAX_TOKEN_BYTES = 200
# In this depth and above, only the number of open brackets counts, and what follows what.
_DEEP_FROM = 3
_WHOLE_STRINGS = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LITERALS = re.compile(rb'[^\s"{}\[\]:,]++')
_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?")
_NO_BRACKET = bytes(each for each in range(256) if each not in b"{}[]")
# Two tokens that never follow each other. Strings are written as `"`, other values as `0`.
_BAD_PAIR = re.compile(rb'\{[^"}]|\[[,:}]|[}\]0][^,}\]]|"[^:,}\]]|[:,][:,}\]]')
_PAIR = re.compile(rb"[{\[][}\]]")
_PAIR_ROUNDS = 6
# The values that are read, by their path. Everything else is only skipped.
_READ = {
    *(("jsonrpc",), ("id",), ("method",), ("result",), ("error",)),
    *(("error", "code"), ("error", "message")),
    *(("result", "isError"), ("result", "resultType"), ("result", "content")),
}


class GaveUp(Exception):
    """The answer takes more steps to read than it is worth."""


class Budget:
    """The steps that may be taken for one answer."""

    def __init__(self) -> None:
        self.left = LIMITS.discarded_values

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise GaveUp


class AnswerScanner(Protocol):
    """Reads an answer in pieces. `verdict` is known once its end has been read."""

    def feed(self, piece: bytes) -> None: ...

    def finish(self) -> None: ...

    @property
    def verdict(self) -> Verdict | None: ...

    @property
    def code(self) -> int | None: ...


class JsonScanner:
    """The outline of one JSON text: where it ends, and its values at the paths in `_READ`.

    Not every malformed text is noticed deep inside, but a text with open brackets or strings is
    never taken as complete.
    """

    def __init__(self, rpc_id: str, budget: Budget) -> None:
        self._rpc_id = rpc_id
        self._budget = budget
        self._open = bytearray()
        self._deeper = 0
        # One attempt for each piece, so that many attempts never take quadratic time.
        self._may_skip = True
        self._path: list[str | None] = []
        self._values: dict[tuple[str | None, ...], str] = {}
        self._token = bytearray()
        self._is_in_string = False
        self._is_escaped = False
        self._wants_key = False
        self._wants_colon = False
        # The token before, as in `_BAD_PAIR`: at first only a value may follow.
        self._before = b":"
        # The piece ended in a literal, which may go on in the next.
        self._is_in_literal = False
        self._is_malformed = False
        self._is_closed = False
        self._is_finished = False

    def feed(self, piece: bytes) -> None:
        at, end = 0, len(piece)
        self._may_skip = True
        while at < end and not self._is_malformed:
            at = self._skip_string(piece, at) if self._is_in_string else self._read(piece, at)

    def finish(self) -> None:
        """Note that nothing follows."""
        self._end_literal()
        self._is_finished = True

    @property
    def verdict(self) -> Verdict | None:
        if not (self._is_finished and self._is_closed) or self._is_malformed:
            return None
        said = self._values
        if said.get(("jsonrpc",)) != '"2.0"' or ("method",) in said:
            return None
        if said.get(("id",), "").strip('"') != self._rpc_id:
            return None
        match said.get(("result",)), said.get(("error",)):
            case None, "{":
                has_code = re.fullmatch(r"-?\d+", said.get(("error", "code"), ""))
                has_message = said.get(("error", "message"), "").startswith('"')
                return "refused" if has_code and has_message else None
            case "{", None if said.get(("result", "content")) == "[":
                if said.get(("result", "resultType"), '"complete"') != '"complete"':
                    return None
                ends: dict[str, Verdict] = {"true": "failed", "false": "succeeded"}
                return ends.get(said.get(("result", "isError"), "false"))
        return None

    @property
    def code(self) -> int | None:
        said = self._values.get(("error", "code"), "")
        return int(said) if re.fullmatch(r"-?\d{1,9}", said) else None

    def _skip_string(self, piece: bytes, at: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            self._keep(piece[at : at + 1])
            return at + 1
        found = cast(re.Match[bytes], _IN_STRING.match(piece, at))
        self._keep(piece[at : found.end()])
        at = found.end()
        if at == len(piece):
            return at
        if piece[at] == ord("\\"):  # the piece ends inside an escape
            self._is_escaped = True
            self._keep(b"\\")
            return at + 1
        self._is_in_string = False
        self._end_string()
        return at + 1

    def _read(self, piece: bytes, at: int) -> int:
        is_deep = len(self._open) >= _DEEP_FROM
        if is_deep and self._may_skip:
            self._may_skip = False
            if (end := self._skip(piece, at)) > at:
                return end
        found = _TOKEN.search(piece, at)
        if found is None or found.start() > at:
            self._end_literal()
        if found is None:
            return len(piece)
        self._budget.spend()
        token = found[0]
        if token not in (b'"', b"{", b"}", b"[", b"]", b":", b","):
            self._is_malformed |= not self._open  # no literal is a message
            if not self._is_in_literal:
                self._follow(b"0")
            self._is_in_literal = True
            self._keep(token)
            return found.end()
        self._end_literal()
        self._follow(token)
        self._read_mark(token[0])
        return found.end()

    def _follow(self, token: bytes) -> None:
        """Note a token, and whether it may stand here."""
        self._is_malformed |= _BAD_PAIR.match(self._before + token) is not None
        self._before = token
        if len(self._open) < _DEEP_FROM:
            self._is_malformed |= self._wants_colon != (token == b":")
            self._is_malformed |= self._wants_key and token not in (b'"', b"}")

    def _skip(self, piece: bytes, at: int) -> int:
        """Skip what stays deep inside, in a few steps for the whole piece. Return where to go on:
        at the same place if it may not stay there."""
        end = cast(re.Match[bytes], _WHOLE_STRINGS.match(piece, at)).end()
        tokens = _STRING.sub(b'"', piece[at:end])
        rest = tokens.translate(None, _NO_BRACKET)
        for _round in range(_PAIR_ROUNDS):
            rest, pairs = _PAIR.subn(b"", rest)
            if not pairs:
                break
        closing = rest.count(b"}") + rest.count(b"]")
        self._budget.spend()
        if closing > self._deeper:
            return at
        self._deeper += len(rest) - 2 * closing
        self._follow_all(tokens)
        return end

    def _follow_all(self, tokens: bytes) -> None:
        """Note the tokens that were skipped, of which strings are only `"`."""
        goes_on = self._is_in_literal and _LITERALS.match(tokens)
        self._is_in_literal = _LITERALS.fullmatch(tokens[-1:]) is not None
        marks = _LITERALS.sub(b"0", tokens).translate(None, b" \t\r\n")
        marks = self._before + (marks[1:] if goes_on else marks)
        self._is_malformed |= _BAD_PAIR.search(marks) is not None
        self._before = marks[-1:]

    def _read_mark(self, mark: int) -> None:
        is_deep = len(self._open) >= _DEEP_FROM
        match mark:
            case 34:  # "
                self._is_in_string = True
                self._is_malformed |= not self._open
                self._token.clear()
            case 123 | 91:  # { [
                self._enter(mark)
            case 125 | 93:  # } ]
                self._leave(mark)
            case 58 if not is_deep:  # :
                self._wants_colon = self._wants_key = False
            case 44 if not is_deep:  # ,
                self._is_malformed |= not self._open
                self._wants_key = bool(self._open) and self._open[-1] == ord("{")

    def _enter(self, mark: int) -> None:
        if len(self._open) >= _DEEP_FROM:
            self._deeper += 1
            return
        if self._is_closed or (not self._open and mark != ord("{")):
            self._is_malformed = True
            return
        self._store(chr(mark))
        self._open.append(mark)
        if len(self._open) <= 2:
            self._path.append(None)
            self._wants_key = mark == ord("{")

    def _leave(self, mark: int) -> None:
        if self._deeper:
            self._deeper -= 1
            return
        if not self._open or self._open.pop() != _CLOSING[mark]:
            self._is_malformed = True
            return
        if len(self._open) < len(self._path):
            self._path.pop()
        self._wants_key = False
        self._is_closed = not self._open

    def _end_string(self) -> None:
        if len(self._open) > 2:
            return
        text = f'"{self._token.decode("utf-8", "replace")}"'
        self._token.clear()
        if self._wants_key and self._open and self._open[-1] == ord("{"):
            self._path[-1] = _decode_key(text)
            self._wants_key = False
            self._wants_colon = True
        else:
            self._store(text)

    def _end_literal(self) -> None:
        self._is_in_literal = False
        if self._token and not self._is_in_string:
            text = self._token.decode("utf-8", "replace")
            is_cut = len(text) >= _MAX_TOKEN_BYTES
            self._is_malformed |= not is_cut and _LITERAL.fullmatch(text) is None
            self._store(text)
            self._token.clear()

    def _store(self, value: str) -> None:
        """Keep what a value is, or begins with, if it is at one of the paths. A name that comes
        twice makes the answer ambiguous."""
        path = tuple(self._path)
        if len(path) != len(self._open) or path not in _READ:
            return
        self._is_malformed |= path in self._values
        self._values[path] = value

    def _keep(self, part: bytes) -> None:
        if len(self._open) <= 2:
            self._token += part[: max(0, _MAX_TOKEN_BYTES - len(self._token))]


def _decode_key(text: str) -> str | None:
    """Return a key; None if it was too long to be one that is read."""
    try:
        key: str = json.loads(text, strict=False)
    except ValueError:
        return None
    return key


class EventScanner:
    """The outlines of the messages of an event stream, up to the answer."""

    def __init__(self, rpc_id: str, budget: Budget) -> None:
        self._rpc_id = rpc_id
        self._budget = budget
        self._answer: JsonScanner | None = None
        self._line = bytearray()
        self._is_data = False
        self._ended_with_return = False
        self._begin_event()

    def feed(self, piece: bytes) -> None:
        if self._ended_with_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._ended_with_return = piece.endswith(b"\r")
        at = 0
        while at < len(piece) and self._answer is None:
            self._budget.spend()
            found = cast(re.Match[bytes], _LINE.match(piece, at))
            self._read_part(found[1])
            if found[2]:
                self._end_line()
            at = found.end()

    def finish(self) -> None:
        """An event without its blank line is not complete."""

    @property
    def verdict(self) -> Verdict | None:
        return self._answer.verdict if self._answer else None

    @property
    def code(self) -> int | None:
        return self._answer.code if self._answer else None

    def _begin_event(self) -> None:
        self._message = JsonScanner(self._rpc_id, self._budget)
        self._is_ignored = False

    def _read_part(self, part: bytes) -> None:
        if self._is_data:
            self._message.feed(part)
            return
        room = _MAX_TOKEN_BYTES - len(self._line)
        self._line += part[: max(0, room)]
        if self._line.startswith(b"data:"):
            self._is_data = True
            self._message.feed(bytes(self._line[5:]) + part[max(0, room) :])

    def _end_line(self) -> None:
        if self._is_data:
            self._message.feed(b"\n")
        elif not self._line:
            self._end_event()
        elif self._line.startswith(b"event:"):
            self._is_ignored = bytes(self._line[6:]).strip() not in (b"", b"message")
        self._line.clear()
        self._is_data = False

    def _end_event(self) -> None:
        self._message.finish()
        if self._message.verdict is not None and not self._is_ignored:
            self._answer = self._message
        self._begin_event()
