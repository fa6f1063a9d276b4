"""`manage.py approvals`: what waits for a person, and their answers."""

import argparse
import json
import sys
import uuid
from typing import Any, cast

from django.http import Http404

from chatapp.management.console import chosen_member, follow, print_json
from chatapp.models import Member, Question, ToolCall, Turn
from chatapp.rendering.inbox import Kind, Waiting
from chatapp.turns import questions
from chatapp.turns.answers import Verdict, deny, grant, resolve
from chatapp.turns.held_results import binding_of_result
from chatapp.turns.narration import end_of, open_approval, result_of
from chatapp.turns.questions import Action, Misfit
from chatapp.turns.refusals import Refused
from chatapp.turns.reviews import give, hold_back
from chatapp.turns.second_signatures import call_for
from chatapp.turns.waiting import all_waiting_for, with_calls
from mcpconfig.management.ending import OperatorCommand
from mcpconfig.management.failures import FAILED, WAITS, Failure

# As programs have known them; what they may answer is in the state.
KINDS: dict[Kind, str] = {
    "approval": "approval",
    "second": "approval",
    "question": "question",
    "sign_in": "sign_in",
    "outcome": "approval",
    "review": "review",
}


class Command(OperatorCommand):
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
        approve.add_argument(
            "--scope",
            choices=["once", "conversation", "always", "service"],
            default="once",
            help="For how long; policy may allow less.",
        )
        approve.add_argument("--arguments", help="Other values to run it with, as JSON.")
        approve.add_argument("--typed", default="", help="The tool's name, where it is asked for.")
        refuse = answers.add_parser("deny", parents=[common], help="Do not run this call.")
        refuse.add_argument("id")
        refuse.add_argument("--reason", default="", help="A word to the assistant.")
        say = answers.add_parser("answer", parents=[common], help="Answer a service's question.")
        say.add_argument("id")
        say.add_argument("values", nargs="?", default="{}", help="The fields as JSON.")
        no = say.add_mutually_exclusive_group()
        no.add_argument("--decline", action="store_true", help="Answer with a no.")
        no.add_argument("--cancel", action="store_true", help="Answer that nobody answers.")
        give = answers.add_parser("give", parents=[common], help="Show the assistant its result.")
        give.add_argument("id")
        hold = answers.add_parser(
            "hold-back", parents=[common], help="Keep this call's result from the assistant."
        )
        hold.add_argument("id")
        hold.add_argument("--reason", default="", help="A word to the assistant.")
        settle = answers.add_parser("resolve", parents=[common], help="Settle an unknown outcome.")
        settle.add_argument("id")
        settle.add_argument("verdict", choices=["worked", "did-not", "again"])
        settle.add_argument("--typed", default="", help="The tool's name, where it is asked for.")

    def handle(self, *args: Any, **options: Any) -> None:
        as_json: bool = options["as_json"]
        if options["answer"] is None:
            person = chosen_member(options["user"])
            _list(with_calls(all_waiting_for(person)), person, as_json=as_json)
            return
        person, call = _addressed(options)
        after = call.turn.conversation.last_seq
        try:
            _answer(person, call, options)
        except Refused as refused:
            raise Failure("refused", refused.sentence) from refused
        if call.turn.conversation.owner_id == person.pk:
            _follow(call.turn_id, after, as_json=as_json)
        else:
            _follow_call(call, after, as_json=as_json)


def _addressed(options: dict[str, Any]) -> tuple[Member, ToolCall]:
    """Who answers, and which call; with several members and no `--user`, its owner answers."""
    try:
        call_id = uuid.UUID(options["id"])
        if options["user"] is None:
            person = Member.objects.get(conversations__turns__tool_calls=call_id)
        else:
            person = chosen_member(options["user"])
        is_decision = options["answer"] in ("approve", "deny")
        return person, (call_for if is_decision else ToolCall.of)(person, call_id)
    except (ValueError, Http404, Member.DoesNotExist) as error:
        hint = "`manage.py approvals` lists what waits."
        raise Failure("not_found", f"Nothing with the id {options['id']} waits.", hint) from error


def _answer(person: Member, call: ToolCall, options: dict[str, Any]) -> None:
    if options["answer"] == "resolve":
        verdict = cast(Verdict, options["verdict"])
        resolve(call, by=person, verdict=verdict, typed=options["typed"])
        return
    if options["answer"] == "answer":
        _answer_question(person, call, options)
        return
    if options["answer"] in ("give", "hold-back"):
        _review(person, call, options)
        return
    approval = open_approval(call)
    binding = approval.binding if approval else ""
    if options["answer"] == "approve":
        grant(
            call,
            by=person,
            binding=binding,
            shown_at=None,
            scope=options["scope"],
            arguments=options["arguments"],
            typed=options["typed"],
        )
    else:
        deny(call, by=person, binding=binding, reason=options["reason"])


def _review(person: Member, call: ToolCall, options: dict[str, Any]) -> None:
    binding = binding_of_result(call)
    if options["answer"] == "give":
        give(call, by=person, binding=binding, shown_at=None)
    else:
        hold_back(call, by=person, binding=binding, reason=options["reason"])


def _answer_question(person: Member, call: ToolCall, options: dict[str, Any]) -> None:
    """The fields of several forms that a service asks at once are told apart by their names."""
    question = call.questions.filter(state=Question.State.OPEN).last()
    if question is None:
        raise Refused("The service does not ask anything about this call now.")
    action: Action = "decline" if options["decline"] else "accept"
    try:
        questions.answer(
            question,
            by=person,
            action="cancel" if options["cancel"] else action,
            values=_values(question, options["values"]),
        )
    except Misfit as misfit:
        found = [
            f"{name}: {said}" for each in misfit.problems.values() for name, said in each.items()
        ]
        raise Refused(" ".join([misfit.sentence, *found])) from misfit


def _values(question: Question, text: str) -> dict[str, dict[str, Any]]:
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise Refused('Give the values as one JSON object, such as {"name": "Ada"}.')
    asked = questions.requests_of(question)
    if len(asked) == 1:
        return {asked[0].key: given}
    fields = {each.key: each.schema.get("properties", {}) for each in asked}
    return {
        key: {name: value for name, value in given.items() if name in known}
        for key, known in fields.items()
    }


def _follow(turn_id: uuid.UUID, after: int, *, as_json: bool) -> None:
    turn, _last = follow(turn_id, after, print_json if as_json else _print_state)
    end = end_of(turn)
    if as_json:
        print_json(end)
    else:
        print(f"The turn is {turn.get_state_display()}.")
    if turn.state == Turn.State.WAITING:
        sys.exit(WAITS)
    if turn.state == Turn.State.FAILED:
        sys.exit(FAILED)


def _follow_call(call: ToolCall, after: int, *, as_json: bool) -> None:
    """Move the turn of somebody else, and tell what becomes of the call that was signed for them;
    the rest of their chat stays theirs."""
    tell = print_json if as_json else _print_state

    def told(event: dict[str, Any]) -> None:
        if event["type"] == "tool_call" and event["id"] == str(call.pk):
            tell(event)

    follow(call.turn_id, after, told)


def _print_state(told: dict[str, Any]) -> None:
    if told["type"] == "tool_call":
        print(f"{told['tool']}: {told['state']}", flush=True)


def _list(waiting: list[Waiting], person: Member, *, as_json: bool) -> None:
    if as_json:
        print_json([_described(each, person) for each in waiting])
        return
    if not waiting:
        print("Nothing waits for you.")
    for each in waiting:
        call, state = each.call, each.call.get_state_display()
        if each.kind == "review":
            state += ", the assistant has not seen it"
        if each.kind == "second":
            state = f"second signature for {call.turn.conversation.owner}"
        print(f"{call.pk}  {state}  {call.tool_id} {call.arguments}")


def _asked(call: ToolCall) -> list[dict[str, Any]]:
    """What a service asks about this call, as `approvals answer` takes it."""
    question = call.questions.filter(state=Question.State.OPEN).last()
    return list(question.requests) if question else []


def _described(waiting: Waiting, person: Member) -> dict[str, Any]:
    """One that somebody else signed first says for whom, and does not name their chat."""
    call, kind = waiting.call, KINDS[waiting.kind]
    owner = call.turn.conversation.owner
    return {
        "id": str(call.pk),
        "kind": kind,
        "state": call.state,
        "tool": call.tool_id,
        "service": call.service.name if call.service else "",
        "arguments": call.arguments,
        "risk": call.risk,
        "reasons": call.reasons,
        "asks": _asked(call),
        "why": call.why,
        "conversation": str(call.turn.conversation_id) if owner == person else "",
        "requester": owner.username,
        "content": result_of(call)["content"] if kind == "review" else [],
        "expires_at": waiting.expires_at.isoformat() if waiting.expires_at else None,
    }
