"""`manage.py chat`: run a turn with the same engine and policy as in the browser."""

import argparse
import contextlib
import sys
import uuid
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.approvals.decisions import grant
from chatapp.conversations import intake
from chatapp.conversations.turn_events import TurnEvent, build_end_event, find_open_approval
from chatapp.management.follow_turn import choose_member, follow_turn, print_json
from chatapp.models import Conversation, Member, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.providers.access.model_choice import find_default_model
from mcpconfig.management.failures import FAILED, WAITS, Failure
from mcpconfig.management.operator_command import OperatorCommand

LEVELS = {"none": 0, "low": 1, "medium": 2, "high": 3, "all": 3}


class Command(OperatorCommand):
    help = gettext_lazy("Send one message, or continue the last turn, and print what happens.")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "text", nargs="?", help=_("The message. Read from standard input if left out.")
        )
        parser.add_argument("--user", help=_("The member who chats."))
        parser.add_argument("--model", help="provider:model")
        parser.add_argument(
            "--effort",
            default="",
            help=_("How much it reasons: default, off, low, medium or high."),
        )
        parser.add_argument(
            "--service", action="append", help=_("Offer only this service’s tools.")
        )
        parser.add_argument("--conversation", help=_("Continue this conversation."))
        parser.add_argument("--continue", action="store_true", dest="continues")
        parser.add_argument("--approve", choices=["none", "low", "medium", "all"], default="none")
        parser.add_argument("--plan", action="store_true", help=_("Plan mode: read-only tools."))
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        as_json: bool = options["as_json"]
        person = choose_member(options["user"])
        conversation = _find_conversation(person, options)
        try:
            turn, last_seq = _choose_turn(person, conversation, options)
        except Refused as refused:
            raise Failure("refused", refused.sentence) from refused
        print_event = print_json if as_json else _print_event
        print_event({"type": "conversation", "id": str(turn.conversation_id)})
        _follow_until_rest(turn, last_seq, person, LEVELS[options["approve"]], print_event)


def _find_conversation(person: Member, options: dict[str, Any]) -> Conversation | None:
    if conversation_id := options["conversation"]:
        try:
            conversation = (
                Conversation.filter_owned(person).filter(pk=uuid.UUID(conversation_id)).first()
            )
        except ValueError:
            conversation = None
        if conversation is None:
            hint = _("If another member owns it, name them with --user.")
            raise Failure(
                "not_found", _("There is no conversation %(id)s.") % {"id": conversation_id}, hint
            )
        return conversation
    if options["continues"]:
        return Conversation.filter_owned(person).order_by("-active_at").first()
    return None


def _choose_turn(
    person: Member, conversation: Conversation | None, options: dict[str, Any]
) -> tuple[Turn, int]:
    """Return the turn to follow and the sequence number of the last event before it."""
    last_seq = conversation.last_seq if conversation else 0
    if options["continues"]:
        shown = (
            conversation.turns.filter(answer__is_shown=True)
            if conversation
            else Turn.objects.none()
        )
        turn = shown.order_by("created_at").last()
        if turn is None:
            raise Refused(_("There is no turn to continue."))
        return turn, last_seq
    text = options["text"] if options["text"] is not None else _read_message()
    _check_services(person, options["service"])
    used_model = conversation.model if conversation else ""
    model = options["model"] or used_model or find_default_model(person)
    if options["plan"] and conversation:
        intake.switch_mode(conversation, Conversation.Mode.PLAN)
    turn = intake.receive(
        person,
        conversation,
        text=text,
        model=model,
        services=options["service"],
        mode=Conversation.Mode.PLAN if options["plan"] else "",
        effort=options["effort"],
    )
    return turn, last_seq


def _read_message() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise Refused(_("The message is not UTF-8 text.")) from error


def _check_services(person: Member, names: list[str] | None) -> None:
    missing = intake.find_unknown_services(person, names or [])
    if missing:
        raise Refused(_("Unknown services: %(names)s.") % {"names": ", ".join(missing)})


def _follow_until_rest(
    turn: Turn, last_seq: int, person: Member, level: int, print_event: Any
) -> None:
    """Follow the turn, and grant the approvals that `--approve` covers.

    The exit code shows whether the turn ended, failed, or waits for a person.
    """
    while True:
        turn, last_seq = follow_turn(turn.pk, last_seq, print_event)
        if turn.state != Turn.State.WAITING or not _approve(turn, person, level):
            break
    end = build_end_event(turn)
    print_event(end)
    if end["type"] == "waiting":
        sys.exit(WAITS)
    if turn.state == Turn.State.FAILED:
        sys.exit(FAILED)


def _approve(turn: Turn, person: Member, level: int) -> bool:
    """Allow once each waiting call up to this risk. Return whether any of them stopped waiting."""
    waiting = turn.tool_calls.filter(state=ToolCall.State.AWAITING_APPROVAL)
    answered = []
    for call in waiting:
        approval = find_open_approval(call)
        if approval is not None and LEVELS.get(call.risk, 99) <= level:
            # Another person may have answered first, or the policy may require more than a click.
            with contextlib.suppress(Refused):
                grant(call, by=person, binding=approval.binding, shown_at=None)
            answered.append(call.pk)
    return waiting.filter(pk__in=answered).count() < len(answered)


def _print_event(event: TurnEvent) -> None:
    """Print an event as text."""
    match event["type"]:
        case "text":
            print(event["text"], end="", flush=True)
        case "tool_call":
            print(f"\n[{event['tool']} {event['arguments']}: {event['state']}]", flush=True)
        case "sources":
            for number, source in enumerate(event["sources"], start=1):
                print(f"\n[{number}] {source['title']} {source['url']}", end="", flush=True)
            print()
        case "picture":
            print(f"\n[{event['name']}: {event['path']}]", flush=True)
        case "notice" | "error":
            print(f"\n{event['text']}", flush=True)
        case "waiting":
            for item in event["for"]:
                print(
                    _("\nWaiting for you: %(tool)s (%(id)s)")
                    % {"tool": item["tool"], "id": item["id"]},
                    flush=True,
                )
            print(
                _("To answer: %(command)s")
                % {"command": "manage.py approvals approve|deny|answer|give|hold-back|resolve ID"},
                flush=True,
            )
        case "done":
            print(f"\n[{event['reason']}]", flush=True)
        case "conversation":
            print(_("[conversation %(id)s]") % {"id": event["id"]}, flush=True)
        case _:
            return
