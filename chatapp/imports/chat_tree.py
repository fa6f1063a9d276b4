"""The messages of a file as the tree of a chat.

Files have a message for each step of an answer; here an answer is one message, as everywhere in
Countersign. A file may have circles, messages after ones that it lacks, and ids twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from .values import Call, Loss, Node, Piece, Result, SourceChat, TreeMessage

MAX_MESSAGES = 10_000


class TooManyMessages(Exception):
    """The chat has more than MAX_MESSAGES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visit:
    """A node to visit. `after` is the place of the message that it follows. It `continues` that
    message if nothing else follows there."""

    node: Node
    after: int | None
    continues: bool


class _Tree:
    def __init__(self, chat: SourceChat) -> None:
        self._chat = chat
        self._nodes = _index(chat.nodes)
        self._children: dict[str, list[Node]] = defaultdict(list)
        self._roots: list[Node] = []
        self.messages: list[TreeMessage] = []
        # The message of each visited node, or the one before it for a node that is left out.
        self._places: dict[str, int | None] = {}
        for node in self._nodes.values():
            if node.parent in self._nodes:
                self._children[node.parent].append(node)
            else:
                self._roots.append(node)
                chat.losses[Loss.LINKS] += bool(node.parent)
        for same in (self._roots, *self._children.values()):
            _sort_by_time(same)

    def build(self) -> list[TreeMessage]:
        for root in self._roots:
            self._add_branch(root)
        # What is left belongs to circles. Each is cut before its first message in the file.
        for node in self._nodes.values():
            if node.id not in self._places:
                self._chat.losses[Loss.LINKS] += 1
                self._add_branch(node)
        self._mark_shown()
        return self.messages

    def _add_branch(self, first: Node) -> None:
        """Add a node and all that follows it, each after the one before it."""
        rest = [_Visit(node=first, after=None, continues=False)]
        while rest:
            visit = rest.pop()
            node = visit.node
            if node.id in self._places:
                continue
            place = self._add(visit)
            self._places[node.id] = place
            following = self._children[node.id]
            # A node that is left out changes nothing for what follows it.
            continues = len(following) == 1 and (visit.continues or place != visit.after)
            rest.extend(
                _Visit(node=each, after=place, continues=continues) for each in reversed(following)
            )

    def _add(self, visit: _Visit) -> int | None:
        """Add the pieces of a node to the message that it continues, or add a message. Return the
        place of the message."""
        node = visit.node
        if node.side is None or not node.pieces:
            return visit.after
        if visit.after is not None and visit.continues:
            before = self.messages[visit.after]
            if before.side == node.side:
                _extend(before.pieces, node.pieces)
                return visit.after
        if len(self.messages) >= MAX_MESSAGES:
            raise TooManyMessages
        message = TreeMessage(
            side=node.side, parent=visit.after, created_at=node.created_at, pieces=[]
        )
        _extend(message.pieces, node.pieces)
        self.messages.append(message)
        return len(self.messages) - 1

    def _mark_shown(self) -> None:
        """Mark the branch that was shown: up to its last message, and from there the newest."""
        if not self.messages:
            return
        place = self._places.get(self._chat.shown)
        if place is None:
            last = (self._places[node.id] for node in reversed(self._nodes.values()))
            place = next(found for found in last if found is not None)
        newest: dict[int | None, int] = {
            each.parent: number for number, each in enumerate(self.messages)
        }
        end = place
        while (following := newest.get(end)) is not None:
            end = following
        current: int | None = end
        while current is not None:
            self.messages[current].is_shown = True
            current = self.messages[current].parent


def build_tree(chat: SourceChat) -> list[TreeMessage]:
    """Return the messages of a chat, each after the one that it follows. Counts what is wrong with
    them in the losses of the chat. Raises TooManyMessages."""
    messages = _Tree(chat).build()
    _complete_times(messages, chat)
    return messages


def _index(nodes: Iterable[Node]) -> dict[str, Node]:
    """Return the nodes by id. One whose id is taken gets another."""
    found: dict[str, Node] = {}
    for node in nodes:
        key = node.id
        while key in found:
            key += "+"
        found[key] = node if key == node.id else replace(node, id=key)
    return found


def _sort_by_time(nodes: list[Node]) -> None:
    """Put versions in the order of their times, if all have one."""
    if len(nodes) > 1 and all(each.created_at for each in nodes):
        nodes.sort(key=lambda each: each.created_at.timestamp() if each.created_at else 0)


def _extend(pieces: list[Piece], more: Sequence[Piece]) -> None:
    """Add pieces, and give each result to its call."""
    for piece in more:
        if isinstance(piece, Result):
            _add_result(pieces, piece)
        else:
            pieces.append(piece)


def _add_result(pieces: list[Piece], result: Result) -> None:
    for place in range(len(pieces) - 1, -1, -1):
        call = pieces[place]
        if not isinstance(call, Call) or call.result is not None:
            continue
        if not result.key or call.key == result.key:
            pieces[place] = replace(call, result=result.text, is_error=result.is_error)
            return
    call = Call(tool=result.tool, result=result.text, is_error=result.is_error, key=result.key)
    pieces.append(call)


def _complete_times(messages: list[TreeMessage], chat: SourceChat) -> None:
    """Give messages without a time that of the message before them, or of the chat."""
    first = chat.created_at or _find_first_time(messages) or chat.active_at
    for message in messages:
        if message.created_at is None:
            chat.losses[Loss.DATES] += 1
            before = None if message.parent is None else messages[message.parent].created_at
            message.created_at = before or first


def _find_first_time(messages: list[TreeMessage]) -> datetime | None:
    return min((each.created_at for each in messages if each.created_at), default=None)
