"""Exchanges of a tool call in another person's chat: what was sent and received is shown after a
reason, which the owner sees. Threat: `admin-reads-unnoticed`."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from chatapp.admin.services import exchanges
from chatapp.admin.services.exchanges import CHAT_OPERATIONS
from chatapp.audit import chat_access
from chatapp.models import LogEntry, Member, ToolCall, Trial
from mcpconfig.models import Exchange, Service, ToolDefinition
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
MARK = "Plum-7f3c"
LIST = "/admin/mcpconfig/exchange/"


@pytest.fixture
def service(db: None) -> Service:
    return Service.objects.create(name="box", url="https://box.example/mcp")


def trace(service: Service, round_id: object = "", **fields: Any) -> Exchange:
    """An exchange with the mark in each field that may repeat arguments or results."""
    values: dict[str, Any] = {
        **{"service": service, "operation": "call_tool", "operation_id": uuid4()},
        **{"method": "POST", "rpc_method": "tools/call", "tool": "delete_note", "status": 200},
        "request_body": f'{{"params": {{"arguments": {{"title": "{MARK}"}}}}}}',
        "response_body": f'{{"result": "{MARK}"}}',
        "request_headers": {"mcp-param-title": MARK},
        "response_headers": {"x-title": MARK},
    }
    return Exchange.objects.create(**values | {"round_id": str(round_id)} | fields)


def call_of(person: Member) -> ToolCall:
    return rows.call(rows.turn(person), {"title": MARK})


def list_pages(exchange: Exchange) -> tuple[str, str]:
    return (
        f"{LIST}{exchange.pk}/change/",
        f"{LIST}operation/{exchange.operation_id}/",
    )


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def make_tracer(*more: str) -> Member:
    tracer = Member.objects.create_user("tracer", password="a-long-password", is_staff=True)
    codenames = ("view_exchange", *more)
    tracer.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return tracer


def test_values_of_another_persons_call_are_shown_after_a_reason(
    admin_client: Client, owner: Member, service: Service
) -> None:
    kept = trace(service, call_of(owner).pk, person_id=owner.pk)
    for address in list_pages(kept):
        page = read(admin_client, address)
        assert MARK not in page, address
        assert "tools/call" in page  # what the operation did stays visible
    (link,) = [each for each in parse(page).all("a") if each.text == "Show the values"]
    opened = admin_client.post(
        link["href"],
        {
            "next": parse(read(admin_client, link["href"])).one("input", name="next")["value"],
            "reason": "A complaint.",
        },
    )
    assert opened["Location"] == list_pages(kept)[1]
    for address in list_pages(kept):
        assert MARK in read(admin_client, address)
    entry = LogEntry.objects.get(kind=LogEntry.Kind.CHAT_OPENED)
    assert (entry.person_id, entry.data) == (owner.pk, '{"reason":"A complaint."}')
    assert "A complaint." in read(signed_in(owner), "/log/")


def test_without_the_right_to_chats_there_is_no_way_to_the_values(
    owner: Member, service: Service
) -> None:
    tracer = make_tracer()
    call = call_of(owner)
    kept = trace(service, call.pk)
    # A reason from the time when the admin had the right is not enough.
    chat_access.open_chat(tracer, call.turn.conversation_id, "A complaint.")
    for address in list_pages(kept):
        page = read(signed_in(tracer), address)
        assert MARK not in page and "Show the values" not in page
        assert "to admins with the right to read other members’ chats" in page


def test_own_calls_trials_and_background_operations_need_no_reason(
    admin: Member, admin_client: Client, owner: Member, service: Service
) -> None:
    definition = ToolDefinition.objects.create(service=service, hash="d" * 64, name="delete_note")
    trial = Trial.objects.create(
        person=owner, service=service, definition=definition, tool_name="delete_note"
    )
    for round_id in ("", call_of(admin).pk, trial.pk):
        for address in list_pages(trace(service, round_id)):
            page = read(admin_client, address)
            assert MARK in page and "Show the values" not in page


def test_exchanges_of_a_removed_chat_stay_hidden(
    admin_client: Client, owner: Member, service: Service
) -> None:
    kept = trace(service, uuid4(), person_id=owner.pk)
    for address in list_pages(kept):
        page = read(admin_client, address)
        assert MARK not in page and "was removed with its chat" in page


@pytest.mark.parametrize("operation", CHAT_OPERATIONS)
def test_what_a_member_read_without_a_tool_call_cannot_be_opened(
    admin_client: Client, owner: Member, service: Service, operation: str
) -> None:
    kept = trace(service, operation=operation, person_id=owner.pk)
    for address in list_pages(kept):
        page = read(admin_client, address)
        assert MARK not in page and "may belong to another member’s chat" in page
        assert "Show the values" not in page
    assert read(admin_client, f"{LIST}?said={MARK}").count("field-moment") == 0


@pytest.mark.parametrize("operation", CHAT_OPERATIONS)
def test_own_reads_and_those_of_no_member_need_no_reason(
    admin: Member, admin_client: Client, service: Service, operation: str
) -> None:
    for person_id in (admin.pk, None):
        for address in list_pages(trace(service, operation=operation, person_id=person_id)):
            assert MARK in read(admin_client, address)
    assert read(admin_client, f"{LIST}?said={MARK}").count("field-moment") == 2


def test_a_search_looks_into_the_newest_calls_of_an_opened_chat(
    admin: Member,
    admin_client: Client,
    owner: Member,
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchanges, "SEARCHED_CALLS", 1)
    turns = rows.turns_of_chat(owner, 8)
    for number, turn in enumerate(turns):
        trace(service, rows.call(turn, {}).pk, person_id=owner.pk, tool=f"tool_{number}")
    chat_access.open_chat(admin, turns[0].conversation_id, "A complaint.")
    page = read(admin_client, f"{LIST}?said={MARK}")
    assert page.count("field-moment") == 1 and "<code>tool_7</code>" in page


def test_no_search_finds_what_is_hidden(
    admin: Member, admin_client: Client, owner: Member, service: Service
) -> None:
    """A search would find it out letter by letter."""
    call = call_of(owner)
    trace(service, call.pk, person_id=owner.pk)
    trace(service)
    found = f"{LIST}?said={MARK}"
    assert read(admin_client, found).count("field-moment") == 1
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    assert read(admin_client, found).count("field-moment") == 2


def test_values_are_copied_to_the_form_after_the_same_reason(
    admin: Member, admin_client: Client, owner: Member, service: Service
) -> None:
    definition = ToolDefinition.objects.create(
        service=service, hash="d" * 64, name="delete_note", input_schema={"type": "object"}
    )
    call = call_of(owner)
    kept = trace(service, call.pk)
    address = f"/admin/mcpconfig/service/{service.pk}/tools/{definition.hash}/try/"
    answer = admin_client.get(f"{address}?exchange={kept.pk}")
    chat = call.turn.conversation_id
    assert answer["Location"].startswith(f"/admin/chatapp/conversation/{chat}/open/")
    chat_access.open_chat(admin, chat, "A complaint.")
    assert MARK in read(admin_client, f"{address}?exchange={kept.pk}")
    entry = LogEntry.objects.get(kind=LogEntry.Kind.VALUES_COPIED)
    assert (entry.person_id, entry.conversation_id) == (owner.pk, chat)


def test_a_copy_of_hidden_values_is_refused_without_the_right_to_chats(
    owner: Member, service: Service
) -> None:
    definition = ToolDefinition.objects.create(service=service, hash="d" * 64, name="delete_note")
    kept = trace(service, call_of(owner).pk)
    tracer = make_tracer("change_service", "view_service")
    address = f"/admin/mcpconfig/service/{service.pk}/tools/{definition.hash}/try/"
    assert signed_in(tracer).get(f"{address}?exchange={kept.pk}").status_code == 403
