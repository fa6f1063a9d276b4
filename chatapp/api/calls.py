"""Tool calls of programs: each is one turn in a chat of its person, decided, asked about and logged
like any other.

The chats of a token hold only these calls, one live call each.
"""

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
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.conversations.intake import log_first_mode
from chatapp.models import AccessToken, Conversation, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.permissions.binding import UnreadableArguments, canonical_arguments
from chatapp.policy.forbidden_tools import remove_forbidden
from chatapp.server.database import in_database
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import ToolError
from chatapp.tools.core import core_tool, core_tools
from chatapp.tools.core_catalogue import add_core_tools, may_use
from mcpconfig.values.results import make_storable

from .direct_calls import begin_turn

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool, Mode

MAX_TRIES = 5
MAX_LIVE = 20
MAX_A_MINUTE = 120
MAX_IN_A_CHAT = 100
FIRST_LOOK_SECONDS = 0.01
LAST_LOOK_SECONDS = 0.25
# By then the interface has answered, and the program may have been told to ask again.
LONG_SECONDS = 10.0
Report = Callable[[ToolCall], Awaitable[None]]
TOO_MUCH = gettext_lazy("Too much is happening at once. Try again in a moment.")
OTHER_REQUEST = gettext_lazy("This Idempotency-Key was used for another request. Use a new one.")


def list_usable_tools(token: AccessToken, mode: "Mode") -> "list[CoreTool]":
    """Return the tools that this token's program is offered in this mode, by name.

    A tool that a rule always forbids is not offered; a call of it is refused by that rule.
    """
    offered = remove_forbidden(add_core_tools(Catalogue(), token.person, mode), token.person)
    return [tool for tool in core_tools() if tool.name in offered]


def find_usable_tool(token: AccessToken, name: str, mode: "Mode") -> "CoreTool | None":
    """Return the tool of this name if a call of it is decided in this mode."""
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
    """Accept a call. The same `key` again returns the first call. Raise ToolError if the
    arguments do not fit, and Refused."""
    tool.validate(arguments)
    text = _canonicalise(arguments)
    request_hash = hashlib.sha256(f"{mode} {tool.name} {text}".encode()).hexdigest()
    for _attempt in range(MAX_TRIES):
        if key and (known := _find_known_call(token, key, request_hash)):
            return known
        # An integrity error means that the same key came at the same time, or that the person began
        # something in the chosen chat.
        with contextlib.suppress(IntegrityError), transaction.atomic():
            return _accept(token, tool, text, mode, key, request_hash)
    raise Refused(TOO_MUCH, 409)


def _canonicalise(arguments: Mapping[str, Any]) -> str:
    if make_storable(arguments) != arguments:
        raise ToolError(message=_("The arguments have a character that can’t be stored."))
    try:
        return canonical_arguments(json.dumps(arguments))
    except UnreadableArguments as problem:
        raise ToolError(message=str(problem)) from None


def _find_known_call(token: AccessToken, key: str, request_hash: str) -> ToolCall | None:
    turn = find_turn_by_key(token, key)
    if turn is None:
        return None
    if turn.request_hash != request_hash:
        raise Refused(OTHER_REQUEST)
    return filter_calls(token).get(turn=turn)


def find_turn_by_key(token: AccessToken, key: str) -> Turn | None:
    """Return the turn, of any interface, that this token's program began with this key."""
    return Turn.objects.filter(token=token, idempotency_key=key).first()


def filter_calls(token: AccessToken) -> QuerySet[ToolCall]:
    """Return the calls of this token's programs."""
    return _select_calls().filter(turn__token=token, turn__model="")


def _accept(
    token: AccessToken, tool: "CoreTool", arguments: str, mode: "Mode", key: str, request_hash: str
) -> ToolCall:
    # Accept one call of a token at a time, so that the limits hold.
    AccessToken.objects.select_for_update().get(pk=token.pk)
    check_pace(token)
    free = _find_free_chat(token, mode)
    chat = free or _create_chat(token, mode)
    call = begin_turn(
        chat,
        words=_("The program of the access token “%(token)s” asks for %(tool)s.")
        % {"token": token.name, "tool": tool.name},
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
    """Raise Refused if no further turn may begin now."""
    if Turn.objects.filter(token=token, state__in=Turn.LIVE).count() >= MAX_LIVE:
        sentence = _(
            "This token already has %(count)s calls that run or wait. Wait until some end."
        )
        raise Refused(sentence % {"count": MAX_LIVE}, 429)
    check_rate(token)


def check_rate(token: AccessToken) -> None:
    since = timezone.now() - timedelta(minutes=1)
    if Turn.objects.filter(token=token, created_at__gt=since).count() >= MAX_A_MINUTE:
        sentence = _("This token can call %(count)s times a minute. Wait a minute.")
        raise Refused(sentence % {"count": MAX_A_MINUTE}, 429)


def _find_free_chat(token: AccessToken, mode: "Mode") -> Conversation | None:
    """Return a chat of this token without a live turn. A chat that its person continued has a
    model and is no longer used."""
    mine = Conversation.objects.filter(
        token=token, owner=token.person, model="", mode=_to_chat_mode(mode), deleted_at=None
    )
    counted = mine.annotate(
        count=Count("turns"), live=Count("turns", filter=Q(turns__state__in=Turn.LIVE))
    )
    return counted.filter(live=0, count__lt=MAX_IN_A_CHAT).order_by("-active_at").first()


def _create_chat(token: AccessToken, mode: "Mode") -> Conversation:
    return Conversation.objects.create(
        owner=token.person,
        title=_("%(name)s (program)") % {"name": token.name},
        mode=_to_chat_mode(mode),
        token=token,
    )


def _to_chat_mode(mode: "Mode") -> Conversation.Mode:
    return Conversation.Mode.PLAN if mode == "mcp_plan" else Conversation.Mode.ACT


def filter_same_calls(
    token: AccessToken, tool: "CoreTool", arguments: Mapping[str, Any]
) -> QuerySet[ToolCall]:
    """Return the calls that this token's programs requested with exactly these arguments. Raise
    ToolError."""
    text = _canonicalise(arguments)
    # A person may have edited the arguments; those that the program sent stay the same.
    asked = Q(asked_arguments=text) | Q(asked_arguments="", arguments=text)
    return filter_calls(token).filter(asked, tool_id=tool.name)


def find_undelivered(calls: QuerySet[ToolCall]) -> ToolCall | None:
    """Return the oldest of these calls that the program was told to ask about again and whose
    outcome it has not received.

    An outcome is kept for as long as an approval; the same arguments later mean a new call.
    """
    had_to_wait = Q(approval__isnull=False) | Q(questions__isnull=False) | _is_long_running()
    since = timezone.now() - timedelta(days=settings.APPROVAL_DAYS)
    is_young = Q(turn__state__in=Turn.LIVE) | Q(turn__finished_at__gt=since)
    undelivered = calls.filter(had_to_wait, is_young, turn__delivered_at=None)
    return undelivered.order_by("turn__created_at").distinct().first()


def _is_long_running() -> Q:
    since = timezone.now() - timedelta(seconds=LONG_SECONDS)
    return Q(turn__state__in=Turn.LIVE, turn__created_at__lt=since)


def mark_delivered(call: ToolCall) -> bool:
    """Record that the program gets the outcome now. Return whether it was the first time."""
    mine = Turn.objects.filter(pk=call.turn_id, delivered_at=None)
    return bool(mine.update(delivered_at=Now()))


async def wait_until_settled(
    call: ToolCall, seconds: float, *, report: Report | None = None, for_people: bool = False
) -> ToolCall:
    """Return the call once it is over or waits for a person, or as it is after `seconds`.

    `for_people` waits for people too. Another process may run the call, so its row is polled.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await _poll_until_settled(call.pk, report, for_people)
    return await in_database(load_call, call.pk)


async def _poll_until_settled(call_id: uuid.UUID, report: Report | None, for_people: bool) -> None:
    told, look = "", FIRST_LOOK_SECONDS
    while True:
        call = await in_database(load_call, call_id)
        if report is not None and call.state != told:
            told = call.state
            await report(call)
        if call.turn.rests and not (for_people and call.turn.is_live):
            return
        await asyncio.sleep(look)
        look = min(1.5 * look, LAST_LOOK_SECONDS)


def load_call(call_id: uuid.UUID) -> ToolCall:
    return _select_calls().get(pk=call_id)


def _select_calls() -> QuerySet[ToolCall]:
    return ToolCall.objects.select_related("turn__conversation__owner", "approval", "review")
