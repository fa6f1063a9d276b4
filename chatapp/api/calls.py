"""Tool calls of programs: each is one turn in a chat of its person, decided, asked about and logged
like any other. The chats of a token are for these calls alone, one live call in each."""

import asyncio
import contextlib
import hashlib
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chatapp.models import AccessToken, Conversation, ToolCall, Turn
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.storage import in_database
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import ToolError
from chatapp.tools.core import core_tool, core_tools
from chatapp.tools.core_catalogue import may_use, with_core_tools
from mcpconfig.results import storable

from .direct_calls import begin
from .forbidden_tools import without_forbidden
from .intake import log_first_mode
from .refusals import Refused

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool, Mode

MOST_TRIES = 5
MOST_LIVE = 20
MOST_A_MINUTE = 120
MOST_IN_A_CHAT = 100
FIRST_LOOK_SECONDS = 0.01
LAST_LOOK_SECONDS = 0.25
# A face has answered by then, so the program may have been told to ask again.
LONG_SECONDS = 10.0
Tell = Callable[[ToolCall], Awaitable[None]]
TOO_MANY_LIVE = f"{MOST_LIVE} calls of this token run or wait for a person. Let some end first."
TOO_MANY = f"This token may call {MOST_A_MINUTE} times a minute. Wait a minute."
TOO_MUCH = "Too much happens at once. Try again in a moment."
OTHER_REQUEST = "This Idempotency-Key came with another request before. Use a new one."


def usable_tools(token: AccessToken, mode: "Mode") -> "list[CoreTool]":
    """The tools that this token's program is offered at a face of this mode, by name. One that an
    admin's rule forbids in any case is not among them; a call of it is refused by that rule."""
    offered = without_forbidden(with_core_tools(Catalogue(), token.person, mode), token.person)
    return [tool for tool in core_tools() if tool.name in offered]


def usable_tool(token: AccessToken, name: str, mode: "Mode") -> "CoreTool | None":
    """The tool of this name, if a call of it is decided at such a face."""
    tool = core_tool(name)
    is_there = tool is not None and mode in tool.modes and may_use(token.person, tool)
    return tool if is_there else None


def receive(
    token: AccessToken,
    tool: "CoreTool",
    arguments: Mapping[str, Any],
    *,
    mode: "Mode",
    key: str = "",
) -> ToolCall:
    """Accept a call. The same `key` again gives the call of the first time. Raises ToolError where
    the arguments do not fit, and Refused."""
    tool.validated(arguments)
    text = _canonical(arguments)
    request_hash = hashlib.sha256(f"{mode} {tool.name} {text}".encode()).hexdigest()
    for _ in range(MOST_TRIES):
        if key and (known := _known(token, key, request_hash)):
            return known
        # An integrity error: the same key came at this moment, or its person began something in
        # the chosen chat.
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return _accept(token, tool, text, mode, key, request_hash)
    raise Refused(TOO_MUCH, 409)


def _canonical(arguments: Mapping[str, Any]) -> str:
    if storable(arguments) != arguments:
        raise ToolError(message="The arguments hold a character that cannot be stored.")
    try:
        return canonical_arguments(json.dumps(arguments))
    except UnreadableArguments as problem:
        raise ToolError(message=str(problem)) from None


def _known(token: AccessToken, key: str, request_hash: str) -> ToolCall | None:
    turn = turn_of_key(token, key)
    if turn is None:
        return None
    if turn.request_hash != request_hash:
        raise Refused(OTHER_REQUEST)
    return calls_of(token).get(turn=turn)


def turn_of_key(token: AccessToken, key: str) -> Turn | None:
    """The turn, of any face, that this token's program began with this key."""
    return Turn.objects.filter(token=token, idempotency_key=key).first()


def calls_of(token: AccessToken) -> QuerySet[ToolCall]:
    """The calls that this token's programs asked for, and nobody else's."""
    return _whole().filter(turn__token=token, turn__model="")


def _accept(
    token: AccessToken, tool: "CoreTool", arguments: str, mode: "Mode", key: str, request_hash: str
) -> ToolCall:
    # One call of a token is accepted at a time, so that the bounds hold.
    AccessToken.objects.select_for_update().get(pk=token.pk)
    check_pace(token)
    free = _free_chat(token, mode)
    chat = free or _new_chat(token, mode)
    call = begin(
        chat,
        words=f"The program of the access token “{token.name}” asks for {tool.name}.",
        turn={
            "model": "",
            "services": [],
            "token": token,
            "idempotency_key": key,
            "request_hash": request_hash,
        },
        call={"tool_id": tool.name, "tool_name": tool.name, "arguments": arguments},
    )
    if free is None:
        log_first_mode(chat)
    return call


def check_pace(token: AccessToken) -> None:
    """Whether one more may begin. Raises Refused."""
    if Turn.objects.filter(token=token, state__in=Turn.LIVE).count() >= MOST_LIVE:
        raise Refused(TOO_MANY_LIVE, 429)
    check_rate(token)


def check_rate(token: AccessToken) -> None:
    since = timezone.now() - timedelta(minutes=1)
    if Turn.objects.filter(token=token, created_at__gt=since).count() >= MOST_A_MINUTE:
        raise Refused(TOO_MANY, 429)


def _free_chat(token: AccessToken, mode: "Mode") -> Conversation | None:
    """A chat of this token in which nothing is under way. One that its person went on with has a
    model, and is theirs."""
    mine = Conversation.objects.filter(
        token=token, owner=token.person, model="", mode=_mode_of_chat(mode)
    )
    counted = mine.annotate(
        count=Count("turns"), live=Count("turns", filter=Q(turns__state__in=Turn.LIVE))
    )
    return counted.filter(live=0, count__lt=MOST_IN_A_CHAT).order_by("-active_at").first()


def _new_chat(token: AccessToken, mode: "Mode") -> Conversation:
    return Conversation.objects.create(
        owner=token.person,
        title=f"{token.name} (program)",
        mode=_mode_of_chat(mode),
        token=token,
    )


def _mode_of_chat(mode: "Mode") -> Conversation.Mode:
    return Conversation.Mode.PLAN if mode == "mcp_plan" else Conversation.Mode.ACT


def calls_alike(
    token: AccessToken, tool: "CoreTool", arguments: Mapping[str, Any]
) -> QuerySet[ToolCall]:
    """The calls that this token's programs asked for in these very words. Raises ToolError."""
    text = _canonical(arguments)
    # A person may have changed the values; what the program asked for stays the same.
    asked = Q(asked_arguments=text) | Q(asked_arguments="", arguments=text)
    return calls_of(token).filter(asked, tool_id=tool.name)


def still_open(calls: QuerySet[ToolCall]) -> ToolCall | None:
    """The oldest of these of which the program was told to ask again, and whose outcome it has not
    been given. An outcome is kept for it as long as an approval would be: the same words much later
    ask for something new."""
    had_to_wait = Q(approval__isnull=False) | Q(questions__isnull=False) | _took_long()
    since = timezone.now() - timedelta(days=settings.APPROVAL_DAYS)
    is_young = Q(turn__state__in=Turn.LIVE) | Q(turn__finished_at__gt=since)
    undelivered = calls.filter(had_to_wait, is_young, turn__delivered_at=None)
    return undelivered.order_by("turn__created_at").distinct().first()


def _took_long() -> Q:
    since = timezone.now() - timedelta(seconds=LONG_SECONDS)
    return Q(turn__state__in=Turn.LIVE, turn__created_at__lt=since)


def deliver(call: ToolCall) -> bool:
    """The program is given the outcome now. Whether it had not been before."""
    mine = Turn.objects.filter(pk=call.turn_id, delivered_at=None)
    return bool(mine.update(delivered_at=Now()))


async def settled(
    call: ToolCall, seconds: float, *, tell: Tell | None = None, for_people: bool = False
) -> ToolCall:
    """The call once it is over or waits for a person, or as it is after that long; `for_people`
    waits for them too. Another process may move it, so its row is looked at."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await _settling(call.pk, tell, for_people)
    return await in_database(read, call.pk)


async def _settling(call_id: uuid.UUID, tell: Tell | None, for_people: bool) -> None:
    told, look = "", FIRST_LOOK_SECONDS
    while True:
        call = await in_database(read, call_id)
        if tell is not None and call.state != told:
            told = call.state
            await tell(call)
        if call.turn.rests and not (for_people and call.turn.is_live):
            return
        await asyncio.sleep(look)
        look = min(1.5 * look, LAST_LOOK_SECONDS)


def read(call_id: uuid.UUID) -> ToolCall:
    return _whole().get(pk=call_id)


def _whole() -> QuerySet[ToolCall]:
    return ToolCall.objects.select_related("turn__conversation__owner", "approval", "review")
