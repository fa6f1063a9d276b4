"""`manage.py approvals`: what waits for a person, and their answers."""

import argparse
import sys
import uuid
from typing import Any, cast

from django.core.management.base import BaseCommand
from django.http import Http404

from chatapp.management.console import FAILED, WAITS, chosen_member, fail, follow, print_json
from chatapp.models import Member, ToolCall, Turn
from chatapp.turns.answers import Verdict, deny, grant, resolve
from chatapp.turns.narration import end_of, open_approval
from chatapp.turns.reading import open_calls
from chatapp.turns.refusals import Refused


class Command(BaseCommand):
    help = "List what waits for a person, or answer it: each answer moves the turn on."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--user", default=argparse.SUPPRESS, help="The member who answers.")
        common.add_argument(
            "--json", action="store_true", dest="as_json", default=argparse.SUPPRESS
        )
        parser.add_argument("--user")
        parser.add_argument("--json", action="store_true", dest="as_json")
        answers = parser.add_subparsers(dest="answer", parser_class=argparse.ArgumentParser)
        approve = answers.add_parser("approve", parents=[common], help="Run this call once.")
        approve.add_argument("id")
        approve.add_argument("--scope", choices=["once"], default="once")
        refuse = answers.add_parser("deny", parents=[common], help="Do not run this call.")
        refuse.add_argument("id")
        refuse.add_argument("--reason", default="", help="A word to the assistant.")
        settle = answers.add_parser("resolve", parents=[common], help="Settle an unknown outcome.")
        settle.add_argument("id")
        settle.add_argument("verdict", choices=["worked", "did-not", "again"])

    def handle(self, *args: Any, **options: Any) -> None:
        as_json: bool = options["as_json"]
        if options["answer"] is None:
            person = chosen_member(options["user"], as_json=as_json)
            _list(open_calls(person), as_json=as_json)
            return
        person, call = _addressed(options)
        after = call.turn.conversation.last_seq
        try:
            _answer(person, call, options)
        except Refused as refused:
            fail("refused", refused.sentence, as_json=as_json)
        _follow(call.turn_id, after, as_json=as_json)


def _addressed(options: dict[str, Any]) -> tuple[Member, ToolCall]:
    """Who answers, and which call; with several members and no `--user`, its owner answers."""
    as_json: bool = options["as_json"]
    try:
        call_id = uuid.UUID(options["id"])
        if options["user"] is None:
            person = Member.objects.get(conversations__turns__tool_calls=call_id)
        else:
            person = chosen_member(options["user"], as_json=as_json)
        return person, ToolCall.of(person, call_id)
    except (ValueError, Http404, Member.DoesNotExist):
        hint = "`manage.py approvals` lists what waits."
        fail("not_found", f"Nothing with the id {options['id']} waits.", hint, as_json=as_json)


def _answer(person: Member, call: ToolCall, options: dict[str, Any]) -> None:
    if options["answer"] == "resolve":
        resolve(call, by=person, verdict=cast(Verdict, options["verdict"]))
        return
    approval = open_approval(call)
    binding = approval.binding if approval else ""
    if options["answer"] == "approve":
        grant(call, by=person, binding=binding, shown_at=None)
    else:
        deny(call, by=person, binding=binding, reason=options["reason"])


def _follow(turn_id: uuid.UUID, after: int, *, as_json: bool) -> None:
    turn = follow(turn_id, after, print_json if as_json else _print_state)
    end = end_of(turn)
    if as_json:
        print_json(end)
    else:
        print(f"The turn is {turn.get_state_display()}.")
    if turn.state == Turn.State.WAITING:
        sys.exit(WAITS)
    if turn.state == Turn.State.FAILED:
        sys.exit(FAILED)


def _print_state(told: dict[str, Any]) -> None:
    if told["type"] == "tool_call":
        print(f"{told['tool']}: {told['state']}", flush=True)


def _list(calls: list[ToolCall], *, as_json: bool) -> None:
    if as_json:
        print_json([_described(call) for call in calls])
        return
    if not calls:
        print("Nothing waits for you.")
    for call in calls:
        print(f"{call.pk}  {call.get_state_display()}  {call.tool_id} {call.arguments}")


def _described(call: ToolCall) -> dict[str, Any]:
    approval = getattr(call, "approval", None)
    return {
        "id": str(call.pk),
        "kind": "approval",
        "state": call.state,
        "tool": call.tool_id,
        "service": call.service.name if call.service else "",
        "arguments": call.arguments,
        "risk": call.risk,
        "reasons": call.reasons,
        "why": call.why,
        "conversation": str(call.turn.conversation_id),
        "expires_at": approval.expires_at.isoformat() if approval else None,
    }
