"""`manage.py chat`: one turn through the same engine and policy as in the browser."""

import argparse
import contextlib
import sys
import uuid
from typing import Any

from chatapp.management.console import chosen_member, follow, print_json
from chatapp.models import Conversation, Member, ToolCall, Turn
from chatapp.turns import intake
from chatapp.turns.answers import grant
from chatapp.turns.model_choice import default_model
from chatapp.turns.narration import Told, end_of, open_approval
from chatapp.turns.refusals import Refused
from mcpconfig.management.ending import OperatorCommand
from mcpconfig.management.failures import FAILED, WAITS, Failure

LEVELS = {"none": 0, "low": 1, "medium": 2, "high": 3, "all": 3}


class Command(OperatorCommand):
    help = "Send one message, or go on with the last turn, and print what happens."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "text", nargs="?", help="The message; read from standard input if left out."
        )
        parser.add_argument("--user", help="The member who chats.")
        parser.add_argument("--model", help="provider:model")
        parser.add_argument("--service", action="append", help="Offer only this service's tools.")
        parser.add_argument("--conversation", help="Go on in this conversation.")
        parser.add_argument("--continue", action="store_true", dest="goes_on")
        parser.add_argument("--approve", choices=["none", "low", "medium", "all"], default="none")
        parser.add_argument("--plan", action="store_true", help="Only plan: use tools that read.")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, *args: Any, **options: Any) -> None:
        as_json: bool = options["as_json"]
        person = chosen_member(options["user"])
        conversation = _conversation(person, options)
        try:
            turn, after = _turn(person, conversation, options)
        except Refused as refused:
            raise Failure("refused", refused.sentence) from refused
        tell = print_json if as_json else _print_words
        tell({"type": "conversation", "id": str(turn.conversation_id)})
        _run(turn, after, person, LEVELS[options["approve"]], tell)


def _conversation(person: Member, options: dict[str, Any]) -> Conversation | None:
    if given := options["conversation"]:
        try:
            found = Conversation.objects.filter(owner=person, pk=uuid.UUID(given)).first()
        except ValueError:
            found = None
        if found is None:
            hint = "Its owner may be another member: name them with --user."
            raise Failure("not_found", f"No conversation {given}.", hint)
        return found
    if options["goes_on"]:
        return Conversation.objects.filter(owner=person).order_by("-active_at").first()
    return None


def _turn(
    person: Member, conversation: Conversation | None, options: dict[str, Any]
) -> tuple[Turn, int]:
    """The turn to follow, and the number of the last event that belongs to what came before."""
    after = conversation.last_seq if conversation else 0
    if options["goes_on"]:
        turn = conversation.turns.order_by("created_at").last() if conversation else None
        if turn is None:
            raise Refused("There is no turn to go on with.")
        return turn, after
    text = options["text"] if options["text"] is not None else _read_message()
    _check_services(person, options["service"])
    kept = conversation.model if conversation else ""
    model = options["model"] or kept or default_model(person)
    if options["plan"] and conversation:
        intake.switch_mode(conversation, Conversation.Mode.PLAN)
    turn = intake.receive(
        person,
        conversation,
        text=text,
        model=model,
        services=options["service"],
        mode=Conversation.Mode.PLAN if options["plan"] else "",
    )
    return turn, after


def _read_message() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise Refused("The message is not UTF-8 text.") from error


def _check_services(person: Member, names: list[str] | None) -> None:
    missing = intake.unknown_services(person, names or [])
    if missing:
        raise Refused(f"There is no service named {', '.join(missing)}.")


def _run(turn: Turn, after: int, person: Member, level: int, tell: Any) -> None:
    """Follow the turn; answer what `--approve` covers; end with the exit code of how it came to
    rest."""
    while True:
        turn, after = follow(turn.pk, after, tell)
        if turn.state != Turn.State.WAITING or not _approve(turn, person, level):
            break
    end = end_of(turn)
    tell(end)
    if end["type"] == "waiting":
        sys.exit(WAITS)
    if turn.state == Turn.State.FAILED:
        sys.exit(FAILED)


def _approve(turn: Turn, person: Member, level: int) -> bool:
    """Click *run once* for what waits up to this level; whether any of it waits no more."""
    waiting = turn.tool_calls.filter(state=ToolCall.State.AWAITING_APPROVAL)
    clicked = []
    for call in waiting:
        approval = open_approval(call)
        if approval is not None and LEVELS.get(call.risk, 99) <= level:
            # Somebody else may have answered first, or policy wants more than a click.
            with contextlib.suppress(Refused):
                grant(call, by=person, binding=approval.binding, shown_at=None)
            clicked.append(call.pk)
    return waiting.filter(pk__in=clicked).count() < len(clicked)


def _print_words(told: Told) -> None:
    """The same events for a person to read."""
    match told["type"]:
        case "text":
            print(told["text"], end="", flush=True)
        case "tool_call":
            print(f"\n[{told['tool']} {told['arguments']}: {told['state']}]", flush=True)
        case "notice" | "error":
            print(f"\n{told['text']}", flush=True)
        case "waiting":
            for item in told["for"]:
                print(f"\nWaits for you: {item['tool']} ({item['id']})", flush=True)
            print(
                "Answer with: manage.py approvals approve|deny|answer|give|hold-back|resolve ID",
                flush=True,
            )
        case "done":
            print(f"\n[{told['reason']}]", flush=True)
        case "conversation":
            print(f"[conversation {told['id']}]", flush=True)
        case _:
            return
