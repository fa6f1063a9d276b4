"""Many rows of everything that the admin lists, as weeks of work by many people leave them.

The numbers of people and services of the same sizes are the same in each run.
"""

import json
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from chatapp.audit import audit_log
from chatapp.audit.audit_log import SERVER, AuditEvent, Kind, Who
from chatapp.models import (
    AccessToken,
    Allowance,
    AnswerFeedback,
    Approval,
    Assistant,
    Consent,
    Conversation,
    Invitation,
    Member,
    Message,
    Part,
    PolicyRule,
    PolicyTest,
    SavedPrompt,
    SecondSignature,
    SharedLink,
    StandIn,
    Step,
    ToolCall,
    ToolLimit,
    Trial,
    Turn,
    UsageOfDay,
)
from mcpconfig.models import Exchange, OAuthGrant, Service, ToolDefinition, ToolSetting

MODELS = ("anthropic:claude", "openai:gpt", "google:gemini", "demo:assistant")
VERBS = {"read": "low", "list": "low", "update": "medium", "send": "medium", "delete": "high"}
NOUNS = ("issue", "note", "file", "customer", "invoice", "label", "event", "page")
# Of a hundred calls: the others succeeded.
STATES = {
    **{"failed": 5, "denied": 3, "refused": 3},
    **{"expired": 1, "withdrawn": 1, "cancelled": 1},
}
AT = "2026-01-01T00:00:00+00:00"
WAITING_EVERY = 500
CALLS_OF_A_TURN = 5
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Which one."},
        "title": {"type": "string"},
        "amount": {"type": "integer"},
    },
    "required": ["id"],
}
RESULT = {"content": [{"type": "text", "text": "It is done. " * 20}], "is_error": False}
CALL = {"tool": "update_issue", "service": "service-1", "arguments": "{}"}
# What entries of the log say, by their kind.
ENTRIES: dict[Kind, dict[str, Any]] = {
    Kind.DECIDED: CALL | {"effect": "ask", "reason": "Needs approval because the risk is high."},
    Kind.SENT: CALL | {"granted_by": "policy: The risk is low."},
    Kind.ENDED: CALL | {"state": "succeeded", "error": None},
    Kind.SERVICE: {"of": "service service-0", "act": "changed", "changed": {}},
    Kind.SIGNED_IN: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    people: int
    services: int
    tools: int
    calls: int
    # Entries of the log, and exchanges.
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    people: Sequence[Member]
    services: Sequence[Service]
    definitions: Sequence[ToolDefinition]
    calls: Sequence[ToolCall]


def fill(sizes: Sizes) -> Rows:
    """Store the rows. The first people and services have most of the calls."""
    chance = random.Random(5)  # noqa: S311  # not for secrets
    people = _create_people(sizes.people)
    services = _create_services(sizes.services)
    definitions = _create_tools(services, sizes.tools)
    calls = _create_calls(people, definitions, sizes.calls, chance)
    _create_policy(people, services, chance)
    _create_own_things(people, services, calls)
    _create_exchanges(services, sizes.entries)
    append_entries(people, calls, sizes.entries)
    return Rows(people=people, services=services, definitions=definitions, calls=calls)


def load() -> Rows:
    """Return the rows that `fill` stored before, without the calls."""
    return Rows(
        people=list(Member.objects.filter(username__startswith="person-").order_by("username")),
        services=list(Service.objects.filter(name__startswith="service-").order_by("pk")),
        definitions=list(ToolDefinition.objects.order_by("pk")),
        calls=(),
    )


def _create(rows: Sequence[Any]) -> list[Any]:
    return list(type(rows[0])._base_manager.bulk_create(rows, batch_size=200)) if rows else []


def _create_people(count: int) -> list[Member]:
    people = _create(
        [
            Member(
                username=f"person-{number:04}",
                first_name="Kim",
                last_name=f"Number{number}",
                email=f"person-{number:04}@example.com",
                password="!",
                last_login=timezone.now(),
            )
            for number in range(count)
        ]
    )
    groups = _create([Group(name=f"Team {number}") for number in range(max(2, count // 50))])
    through: Any = Member.groups.through
    _create(
        [
            through(member_id=person.pk, group_id=groups[number % len(groups)].pk)
            for number, person in enumerate(people)
        ]
    )
    return people


def _create_services(count: int) -> list[Service]:
    error = {"kind": "refused", "message": "It answered 401.", "hint": "", "at": AT}
    return _create(
        [
            Service(
                name=f"service-{number}",
                title=f"Service {number}",
                url=f"https://127.0.0.1:1/{number}",
                visibility=Service.Visibility.EVERYONE,
                authentication="oauth_user" if number % 4 == 0 else "none",
                last_error=error if number % 20 == 5 else None,
                last_success_at=timezone.now(),
            )
            for number in range(count)
        ]
    )


def _create_tools(services: Sequence[Service], count: int) -> list[ToolDefinition]:
    """The first service has many of them."""
    first = min(count // 10, 100)
    definitions = []
    for number in range(count):
        verb = list(VERBS)[number % len(VERBS)]
        noun = NOUNS[number // len(VERBS) % len(NOUNS)]
        definitions.append(
            ToolDefinition(
                service=services[0 if number < first else number % len(services)],
                hash=f"{number:064x}",
                name=f"{verb}_{noun}_{number}",
                description=f"Use this to {verb} one {noun} of the team. " * 3,
                input_schema=SCHEMA,
            )
        )
    settings = [
        ToolSetting(
            service=each.service,
            name=each.name,
            confirmed_hash=each.hash if number % 10 else "",
            is_enabled=number % 13 != 0,
        )
        for number, each in enumerate(definitions)
    ]
    _create(settings)
    return _create(definitions)


def _pick(chance: random.Random, most: int) -> int:
    """A number below `most`; a tenth of the numbers is picked in a third of the cases."""
    return int(most * chance.random() ** 2)


def _create_calls(
    people: Sequence[Member],
    definitions: Sequence[ToolDefinition],
    count: int,
    chance: random.Random,
) -> list[ToolCall]:
    turns = _create_turns(people, -(-count // CALLS_OF_A_TURN), chance)
    states = [state for state, share in STATES.items() for _ in range(share)]
    states += ["succeeded"] * (100 - len(states))
    calls, approvals = [], []
    for number in range(count):
        turn = turns[number // CALLS_OF_A_TURN]
        place = number % CALLS_OF_A_TURN
        definition = definitions[_pick(chance, len(definitions))]
        risk = VERBS[definition.name.split("_")[0]]
        state = chance.choice(states)
        if place == CALLS_OF_A_TURN - 1 and turn.state == "waiting":
            state = "awaiting_approval"
        call = _build_call(turn, place, definition, risk, state)
        calls.append(call)
        is_asked = state in ("denied", "expired", "withdrawn", "awaiting_approval")
        if state != "refused" and (is_asked or risk == "high"):
            approvals.append(_build_approval(call, people[number % len(people)], chance))
    _create(calls)
    _create(approvals)
    return calls


def _build_call(
    turn: Turn, place: int, definition: ToolDefinition, risk: str, state: str
) -> ToolCall:
    was_sent = state in ("succeeded", "failed", "cancelled")
    now = timezone.now()
    return ToolCall(
        turn=turn,
        step=place // 2 + 1,
        position=place,
        provider_call_id=f"call-{place}",
        tool_id=f"{definition.service.name}_{definition.name}",
        tool_name=definition.name,
        service=definition.service,
        definition=definition,
        arguments=json.dumps({"id": "a-1", "title": "An example " * 8, "amount": 5}),
        state=state,
        risk=risk,
        reasons=["The name says that it changes something."],
        why="Needs approval because the risk is high." if risk == "high" else "The risk is low.",
        binding="b" * 64,
        attempt=int(was_sent),
        sent_at=now if was_sent else None,
        finished_at=None if state == "awaiting_approval" else now + timedelta(seconds=2),
        result=RESULT if state == "succeeded" else None,
        error={"kind": "refused", "message": "It failed."} if state == "failed" else None,
    )


ANSWERS = {"denied": "denied", "expired": "expired", "withdrawn": "withdrawn"}


def _build_approval(call: ToolCall, person: Member, chance: random.Random) -> Approval:
    state = ANSWERS.get(call.state, "granted")
    state = "open" if call.state == "awaiting_approval" else state
    now = timezone.now()
    is_answered = state in ("granted", "denied")
    return Approval(
        tool_call=call,
        binding=call.binding,
        state=state,
        decided_by=person if is_answered else None,
        decided_at=now + timedelta(seconds=60 * chance.random()) if is_answered else None,
        expires_at=now + timedelta(days=7),
    )


def _create_turns(people: Sequence[Member], count: int, chance: random.Random) -> list[Turn]:
    chats = _create(
        [
            Conversation(
                owner=people[_pick(chance, len(people))],
                title=f"Chat about {NOUNS[number % len(NOUNS)]} {number}",
                model=MODELS[number % len(MODELS)],
            )
            for number in range(count)
        ]
    )
    questions = _create([Message(conversation=chat, role="user") for chat in chats])
    answers = _create(
        [
            Message(conversation=chat, role="assistant", parent=question)
            for chat, question in zip(chats, questions, strict=True)
        ]
    )
    said = [(each, "What is new?") for each in questions] + [(each, "Much.") for each in answers]
    _create([Part(message=each, position=0, kind="text", text=text) for each, text in said])
    now = timezone.now()
    turns = _create(
        [
            Turn(
                conversation=chat,
                question=question,
                answer=answer,
                model=chat.model,
                state="waiting" if number % WAITING_EVERY == WAITING_EVERY - 1 else "done",
                started_at=now,
                finished_at=now + timedelta(seconds=20),
            )
            for number, (chat, question, answer) in enumerate(
                zip(chats, questions, answers, strict=True)
            )
        ]
    )
    _create([Step(turn=turn, number=number, state="done") for turn in turns for number in (1, 2)])
    return turns


def _create_policy(
    people: Sequence[Member], services: Sequence[Service], chance: random.Random
) -> None:
    groups = list(Group.objects.order_by("pk"))
    effects = ("allow", "ask", "deny")
    _create(
        [
            PolicyRule(
                name=f"Rule {number}",
                effect=effects[number % 3],
                tool=f"update_issue_{number}",
                service=services[number % len(services)],
            )
            for number in range(max(2, len(services) // 4))
        ]
    )
    _create(
        [
            ToolLimit(tool=f"send_note_{number}", calls=100, group=groups[number % len(groups)])
            for number in range(max(2, len(services) // 10))
        ]
    )
    _create(
        [
            PolicyTest(
                name=f"Test {number}",
                person=people[number % len(people)],
                service=services[number % len(services)],
                tool="update_issue",
                expected="ask",
            )
            for number in range(max(2, len(services) // 10))
        ]
    )
    _create([SecondSignature(name=f"Second {each.name}", approvers=each) for each in groups])
    today = timezone.localdate()
    _create(
        [
            StandIn(
                approver=person,
                stand_in=people[number - 1],
                begins_on=today,
                ends_on=today + timedelta(days=7),
            )
            for number, person in enumerate(people)
            if number % 10 == 1
        ]
    )
    _create([Allowance(person=person, tokens=10_000_000) for person in people[::20]])
    _create(
        [
            Consent(
                person=person,
                service=service,
                endpoint=service.endpoint,
                scope=Consent.Scope.TOOL,
                definitions={f"update_note_{number}": "h"},
            )
            for number, person in enumerate(people)
            for service in (services[_pick(chance, len(services))] for _ in range(3))
        ]
    )


def _create_own_things(
    people: Sequence[Member], services: Sequence[Service], calls: Sequence[ToolCall]
) -> None:
    today, soon = timezone.localdate(), timezone.now() + timedelta(days=30)
    _create(
        [
            UsageOfDay(
                person=person,
                day=today - timedelta(days=day),
                model=MODELS[number % len(MODELS)],
                currency="USD",
                calls=20,
                input_tokens=90_000,
                output_tokens=9_000,
                cost=1,
            )
            for number, person in enumerate(people)
            for day in range(0, 360, 3)
        ]
    )
    _create(
        [
            AccessToken(
                person=person,
                name=f"Job {number}",
                scopes=["tools"],
                prefix=f"cs_{number}",
                secret_hash=uuid.uuid4().hex * 2,
                expires_at=soon,
            )
            for number, person in enumerate(people)
        ]
    )
    _create([SavedPrompt(owner=each, title="Greeting", text="Hello") for each in people])
    _create([Assistant(owner=each, name="Review", instructions="Review it.") for each in people])
    _create(
        [
            Invitation(
                email=f"new-{number}@example.com",
                token_hash=uuid.uuid4().hex * 2,
                invited_by=people[0],
                expires_at=soon,
            )
            for number in range(max(2, len(people) // 5))
        ]
    )
    _create_feedback_and_links(calls)
    _create_trials(people, calls)
    signs_in = [service for service in services if service.authentication == "oauth_user"][:10]
    _create(
        [
            OAuthGrant(service=service, person=person, endpoint=service.endpoint)
            for service in signs_in
            for person in people
        ]
    )
    _create(
        [
            DBTaskResult(
                status="SUCCESSFUL" if number % 20 else "FAILED",
                enqueued_at=timezone.now(),
                finished_at=timezone.now(),
                args_kwargs={"args": [], "kwargs": {}},
                task_path="chatapp.background.jobs.prune_events",
                backend_name="default",
                run_after=timezone.now(),
                exception_class_path="",
                traceback="" if number % 20 else "Traceback\nValueError: It failed.",
            )
            for number in range(len(people))
        ]
    )


def _create_feedback_and_links(calls: Sequence[ToolCall]) -> None:
    turns = {call.turn_id: call.turn for call in calls}
    some = list(islice(turns.values(), 0, None, 10))
    _create(
        [
            AnswerFeedback(message=turn.answer, is_good=number % 3 > 0, model=turn.model)
            for number, turn in enumerate(some)
        ]
    )
    _create(
        [
            SharedLink(
                conversation=turn.conversation,
                audience=SharedLink.Audience.MEMBERS,
                tools=SharedLink.Tools.FULL,
                includes_files=False,
                last_message=turn.answer,
                last_part=1,
                messages=2,
                taken_at=timezone.now(),
            )
            for turn in some
        ]
    )


def _create_trials(people: Sequence[Member], calls: Sequence[ToolCall]) -> None:
    _create(
        [
            Trial(
                person=people[number % len(people)],
                service=call.service,
                definition=call.definition,
                tool_id=call.tool_id,
                tool_name=call.tool_name,
                arguments="{}",
                risk=call.risk,
                state="succeeded",
            )
            for number, call in enumerate(calls[::20])
        ]
    )


def _create_exchanges(services: Sequence[Service], count: int) -> None:
    _create(
        [
            Exchange(
                service=services[number % len(services)],
                operation=("call_tool", "list_tools", "read_resource")[number % 3],
                operation_id=uuid.uuid4(),
                round_id=str(uuid.uuid4()),
                method="POST",
                url="https://service.example/mcp",
                kind="request",
                rpc_method="tools/call",
                era=("2026-07-28", "2025-06-18")[number % 2],
                status=(200, 200, 200, 401, 500)[number % 5],
                request_body='{"jsonrpc": "2.0"}' * 10,
                request_bytes=180,
                response_body='{"result": {}}' * 20,
                response_bytes=280,
                duration_ms=number % 900,
            )
            for number in range(count)
        ]
    )


def append_entries(people: Sequence[Member], calls: Sequence[ToolCall], count: int) -> None:
    """Append entries to the log, about some of the calls."""
    kinds, events = list(ENTRIES), []
    for number in range(count):
        call, person = calls[number % len(calls)], people[number % len(people)]
        kind = kinds[number % len(kinds)]
        events.append(
            AuditEvent(
                kind=kind,
                data=ENTRIES[kind],
                actor=Who(id=person.pk, name=person.username) if number % 2 else SERVER,
                person=Who(id=person.pk, name=person.username),
                conversation_id=call.turn.conversation_id,
                turn_id=call.turn_id,
                call_id=call.pk,
            )
        )
    for first in range(0, count, 500):
        audit_log.append(events[first : first + 500])


def analyse() -> None:
    """Let the database look at the rows, as it does by itself after a while."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
