"""`manage.py approvals`: list what waits for a person, and answer it."""

import argparse
import json
import sys
import uuid
from typing import Any, cast

from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.approvals import questions
from chatapp.approvals.decisions import Verdict, deny, grant, resolve
from chatapp.approvals.inbox import add_calls, list_all_waiting
from chatapp.approvals.questions import Action, InvalidAnswer
from chatapp.approvals.reviews import give_result, withhold_result
from chatapp.context.withheld_results import hash_result
from chatapp.conversations.turn_events import (
    build_end_event,
    build_result_event,
    find_open_approval,
)
from chatapp.management.follow_turn import choose_member, follow_turn, print_json
from chatapp.models import Member, Question, ToolCall, Turn
from chatapp.people.refused import Refused
from chatapp.people.second_signers import get_call
from chatapp.rendering.pages.inbox import Kind, WaitingCall
from mcpconfig.management.failures import FAILED, WAITS, Failure
from mcpconfig.management.operator_command import OperatorCommand

# The kinds in the JSON output. The state of a call shows which answers it accepts.
KINDS: dict[Kind, str] = {
    "approval": "approval",
    "second": "approval",
    "question": "question",
    "sign_in": "sign_in",
    "outcome": "approval",
    "review": "review",
}


class Command(OperatorCommand):
    help = gettext_lazy(
        "List what is waiting for a person, or answer it. Each answer continues the turn."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--user", default=argparse.SUPPRESS, help=_("The member who answers."))
        common.add_argument(
            "--json", action="store_true", dest="as_json", default=argparse.SUPPRESS
        )
        parser.add_argument("--user")
        parser.add_argument("--json", action="store_true", dest="as_json")
        answers = parser.add_subparsers(dest="answer", parser_class=argparse.ArgumentParser)
        approve = answers.add_parser("approve", parents=[common], help=_("Allow this call once."))
        approve.add_argument("id")
        approve.add_argument(
            "--scope",
            choices=["once", "conversation", "always", "service"],
            default="once",
            help=_("How long the permission lasts. Policy may allow less."),
        )
        approve.add_argument("--arguments", help=_("Other arguments to run it with, as JSON."))
        approve.add_argument(
            "--typed", default="", help=_("The tool’s name, where it is required.")
        )
        deny_parser = answers.add_parser("deny", parents=[common], help=_("Deny this call."))
        deny_parser.add_argument("id")
        deny_parser.add_argument("--reason", default="", help=_("A message to the assistant."))
        answer = answers.add_parser(
            "answer", parents=[common], help=_("Answer a service’s question.")
        )
        answer.add_argument("id")
        answer.add_argument("values", nargs="?", default="{}", help=_("The fields, as JSON."))
        refusal = answer.add_mutually_exclusive_group()
        refusal.add_argument("--decline", action="store_true", help=_("Decline the question."))
        refusal.add_argument("--cancel", action="store_true", help=_("Cancel the question."))
        give = answers.add_parser(
            "give", parents=[common], help=_("Share the result of this call with the assistant.")
        )
        give.add_argument("id")
        hold_back = answers.add_parser(
            "hold-back", parents=[common], help=_("Keep this call’s result from the assistant.")
        )
        hold_back.add_argument("id")
        hold_back.add_argument("--reason", default="", help=_("A message to the assistant."))
        resolve_parser = answers.add_parser(
            "resolve", parents=[common], help=_("Settle an unknown outcome.")
        )
        resolve_parser.add_argument("id")
        resolve_parser.add_argument("verdict", choices=["worked", "did-not", "again"])
        resolve_parser.add_argument(
            "--typed", default="", help=_("The tool’s name, where it is required.")
        )

    def handle(self, *args: Any, **options: Any) -> None:
        as_json: bool = options["as_json"]
        if options["answer"] is None:
            person = choose_member(options["user"])
            _print_waiting(add_calls(list_all_waiting(person)), person, as_json=as_json)
            return
        person, call = _find_call(options)
        last_seq = call.turn.conversation.last_seq
        try:
            _answer(person, call, options)
        except Refused as refused:
            raise Failure("refused", refused.sentence) from refused
        if call.turn.conversation.owner_id == person.pk:
            _follow_turn(call.turn_id, last_seq, as_json=as_json)
        else:
            _follow_call(call, last_seq, as_json=as_json)


def _find_call(options: dict[str, Any]) -> tuple[Member, ToolCall]:
    """Return the member who answers and the call. Without `--user`, its owner answers."""
    try:
        call_id = uuid.UUID(options["id"])
        if options["user"] is None:
            person = Member.objects.get(conversations__turns__tool_calls=call_id)
        else:
            person = choose_member(options["user"])
        is_decision = options["answer"] in ("approve", "deny")
        return person, (get_call if is_decision else ToolCall.of)(person, call_id)
    except (ValueError, Http404, Member.DoesNotExist) as error:
        hint = _("To see what is waiting, run `manage.py approvals`.")
        raise Failure(
            "not_found", _("Nothing with the id %(id)s is waiting.") % {"id": options["id"]}, hint
        ) from error


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
    approval = find_open_approval(call)
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
    binding = hash_result(call)
    if options["answer"] == "give":
        give_result(call, by=person, binding=binding, shown_at=None)
    else:
        withhold_result(call, by=person, binding=binding, reason=options["reason"])


def _answer_question(person: Member, call: ToolCall, options: dict[str, Any]) -> None:
    """Answer the open question of a service. It may consist of several forms.

    The values are assigned to the forms by the names of their fields.
    """
    question = call.questions.filter(state=Question.State.OPEN).last()
    if question is None:
        raise Refused(_("The service has no open question about this call."))
    action: Action = "decline" if options["decline"] else "accept"
    try:
        questions.answer(
            question,
            by=person,
            action="cancel" if options["cancel"] else action,
            values=_parse_values(question, options["values"]),
        )
    except InvalidAnswer as error:
        problems = [
            f"{name}: {problem}"
            for form in error.problems.values()
            for name, problem in form.items()
        ]
        raise Refused(" ".join([error.sentence, *problems])) from error


def _parse_values(question: Question, text: str) -> dict[str, dict[str, Any]]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise Refused(_('Enter the values as one JSON object, such as {"name": "Ada"}.'))
    requests = questions.read_requests(question)
    if len(requests) == 1:
        return {requests[0].key: values}
    fields = {request.key: request.schema.get("properties", {}) for request in requests}
    return {
        key: {name: value for name, value in values.items() if name in names}
        for key, names in fields.items()
    }


def _follow_turn(turn_id: uuid.UUID, last_seq: int, *, as_json: bool) -> None:
    turn, _last_seq = follow_turn(turn_id, last_seq, print_json if as_json else _print_state)
    end = build_end_event(turn)
    if as_json:
        print_json(end)
    else:
        print(_("Turn: %(state)s") % {"state": turn.get_state_display()})
    if turn.state == Turn.State.WAITING:
        sys.exit(WAITS)
    if turn.state == Turn.State.FAILED:
        sys.exit(FAILED)


def _follow_call(call: ToolCall, last_seq: int, *, as_json: bool) -> None:
    """Continue the turn of another person, and print the events of the signed call only.

    The signer must not see other events, because the chat belongs to that person.
    """
    print_event = print_json if as_json else _print_state

    def print_event_of_call(event: dict[str, Any]) -> None:
        if event["type"] == "tool_call" and event["id"] == str(call.pk):
            print_event(event)

    follow_turn(call.turn_id, last_seq, print_event_of_call)


def _print_state(event: dict[str, Any]) -> None:
    if event["type"] == "tool_call":
        print(f"{event['tool']}: {event['state']}", flush=True)


def _print_waiting(waiting: list[WaitingCall], person: Member, *, as_json: bool) -> None:
    if as_json:
        print_json([_build_item(item, person) for item in waiting])
        return
    if not waiting:
        print(_("Nothing is waiting for you."))
    for item in waiting:
        call, state = item.call, item.call.get_state_display()
        if item.kind == "review":
            state = _("%(state)s, not shown to the assistant") % {"state": state}
        if item.kind == "second":
            state = _("second approval for %(person)s") % {"person": call.turn.conversation.owner}
        print(f"{call.pk}  {state}  {call.tool_id} {call.arguments}")


def _list_questions(call: ToolCall) -> list[dict[str, Any]]:
    """Return the open questions of the service about this call, for `approvals answer`."""
    question = call.questions.filter(state=Question.State.OPEN).last()
    return list(question.requests) if question else []


def _build_item(waiting: WaitingCall, person: Member) -> dict[str, Any]:
    """Return the JSON of a waiting call. The chat of another person is left out."""
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
        "asks": _list_questions(call),
        "why": call.why,
        "conversation": str(call.turn.conversation_id) if owner == person else "",
        "requester": owner.username,
        "content": build_result_event(call)["content"] if kind == "review" else [],
        "expires_at": waiting.expires_at.isoformat() if waiting.expires_at else None,
    }
