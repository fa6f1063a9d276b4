"""An admin opens *Try it* with the values of an earlier call: with the right to read them, without
its secrets, and without sending anything."""

import json
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.test import Client

from chatapp.audit import chat_access
from chatapp.models import LogEntry, Member, ToolCall
from mcpconfig.models import Exchange, Service, ToolDefinition
from mcpconfig.values.masking import MASK
from tests.conftest import signed_in
from tests.peers.bench import Bench
from tests.turns import rows

from .try_tool_page import Page

VALUES = {"order": "A-17", "reason": "Twice", "password": "hunter2"}


@pytest.fixture
def definition(shop: Service) -> ToolDefinition:
    return shop.definitions.get(name="delete_order")


@pytest.fixture
def call(shop: Service, definition: ToolDefinition, owner: Member) -> ToolCall:
    return rows.call(
        rows.turn(owner),
        service=shop,
        tool_name="delete_order",
        tool_id="shop_delete_order",
        arguments=json.dumps(VALUES),
        definition=definition,
    )


def make_address(definition: ToolDefinition, **query: Any) -> str:
    page = f"/admin/mcpconfig/service/{definition.service_id}/tools/{definition.hash}/try/"
    return f"{page}?{urlencode(query)}"


def read_sent(page: Page) -> str:
    return json.dumps(page.fields)


def test_the_values_of_a_call_fill_the_form_and_nothing_is_sent(
    admin_client: Client, admin: Member, call: ToolCall, definition: ToolDefinition, bench: Bench
) -> None:
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    page = Page.of(admin_client.get(make_address(definition, call=call.pk)))
    assert "A-17" in read_sent(page) and "Twice" in read_sent(page)
    assert "hunter2" not in page.dom.text and "hunter2" not in read_sent(page)
    assert "Secrets were left out. Enter them again: password." in page.dom.text
    assert not bench.ran
    entry = LogEntry.objects.get(kind=LogEntry.Kind.VALUES_COPIED)
    assert (entry.actor_id, entry.person_id, entry.call_id) == (
        admin.pk,
        call.turn.conversation.owner_id,
        call.pk,
    )
    assert "A-17" not in entry.data


def test_the_chat_of_another_member_needs_a_reason_first(
    admin_client: Client, call: ToolCall, definition: ToolDefinition
) -> None:
    answer = Page.of(admin_client.get(make_address(definition, call=call.pk)))
    assert answer.status == 302
    assert f"/conversation/{call.turn.conversation_id}/open/" in answer.location
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.VALUES_COPIED).exists()


@pytest.mark.parametrize(
    "rights", [["services"], ["services", "traces"], ["services", "policy", "models"]]
)
def test_an_admin_without_the_right_to_chats_gets_no_values(
    call: ToolCall, definition: ToolDefinition, rights: list[str]
) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="a-long-password", is_staff=True, rights=rights
    )
    answer: Any = signed_in(clerk).get(make_address(definition, call=call.pk))
    assert answer.status_code == 403
    assert b"A-17" not in answer.content
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.VALUES_COPIED).exists()


def test_the_right_to_services_is_needed_to_try(call: ToolCall, definition: ToolDefinition) -> None:
    reader = Member.objects.create_user(
        "reader", password="a-long-password", is_staff=True, rights=["traces", "chats"]
    )
    chat_access.open_chat(reader, call.turn.conversation_id, "A complaint.")
    client = signed_in(reader)
    assert client.get(make_address(definition, call=call.pk)).status_code == 403
    story = client.get(f"/admin/chatapp/toolcall/{call.pk}/change/").content.decode()
    assert "Replay in Try it" not in story


def test_a_call_page_and_an_operation_page_lead_to_the_form(
    admin_client: Client, call: ToolCall, definition: ToolDefinition
) -> None:
    story = admin_client.get(f"/admin/chatapp/toolcall/{call.pk}/change/").content.decode()
    assert make_address(definition, call=call.pk) in story
    kept = trace(definition)
    operation = f"/admin/mcpconfig/exchange/operation/{kept.operation_id}/"
    shown = admin_client.get(operation).content.decode()
    assert make_address(definition, exchange=kept.pk) in shown


@pytest.mark.parametrize("query", [{"call": "x"}, {"call": uuid4()}, {"exchange": "x"}])
def test_what_is_not_there_is_not_found(
    admin_client: Client, definition: ToolDefinition, query: dict[str, Any]
) -> None:
    assert admin_client.get(make_address(definition, **query)).status_code == 404


def test_values_of_another_tool_are_not_copied(
    admin_client: Client, admin: Member, call: ToolCall, shop: Service
) -> None:
    chat_access.open_chat(admin, call.turn.conversation_id, "A complaint.")
    other = shop.definitions.get(name="list_orders")
    page = Page.of(admin_client.get(make_address(other, call=call.pk)))
    assert "they were sent to another tool" in page.dom.text
    assert "A-17" not in page.dom.text


# --- from a trace ------------------------------------------------------------------------------
def trace(definition: ToolDefinition, body: str = "", **fields: Any) -> Exchange:
    sent = {"method": "tools/call", "params": {"name": "delete_order", "arguments": VALUES}}
    values: dict[str, Any] = {
        "service": definition.service,
        "operation": "call_tool",
        "operation_id": uuid4(),
        "method": "POST",
        "rpc_method": "tools/call",
        "tool": "delete_order",
        "request_body": body or json.dumps(sent),
    }
    return Exchange.objects.create(**values | fields)


def test_the_values_of_a_trace_fill_the_form(
    admin_client: Client, definition: ToolDefinition, bench: Bench
) -> None:
    page = Page.of(admin_client.get(make_address(definition, exchange=trace(definition).pk)))
    assert "A-17" in read_sent(page)
    assert "hunter2" not in read_sent(page)
    assert not bench.ran
    assert LogEntry.objects.filter(kind=LogEntry.Kind.VALUES_COPIED).count() == 1


def test_secrets_of_a_trace_are_left_out_wherever_they_are(
    admin_client: Client, definition: ToolDefinition
) -> None:
    values = {"order": f"A-17 {MASK}", "tokens": [{"password": "hunter2"}], "password": ["x-ray"]}
    kept = trace(definition, body=json.dumps({"params": {"arguments": values}}))
    page = Page.of(admin_client.get(make_address(definition, exchange=kept.pk)))
    assert "Secrets were left out. Enter them again: order, password." in page.dom.text
    assert not [each for each in (MASK, "hunter2", "x-ray") if each in read_sent(page)]


def test_values_of_a_trace_of_another_tool_are_not_copied(
    admin_client: Client, definition: ToolDefinition, shop: Service
) -> None:
    other = shop.definitions.get(name="list_orders")
    page = Page.of(admin_client.get(make_address(other, exchange=trace(definition).pk)))
    assert "they were sent to another tool" in page.dom.text
    assert "A-17" not in read_sent(page)


def test_a_cut_request_is_not_copied(admin_client: Client, definition: ToolDefinition) -> None:
    kept = trace(definition, body='{"method": "tools/call", "params": {"arguments": {"order": "A-')
    page = Page.of(admin_client.get(make_address(definition, exchange=kept.pk)))
    assert "only the beginning of the request" in page.dom.text


@pytest.mark.parametrize(
    "arguments", ["[1]", '"A-17"', "3", '{"order": ' + "[" * 700 + "]" * 700 + "}"]
)
def test_arguments_that_no_form_can_hold_are_not_copied(
    admin_client: Client, definition: ToolDefinition, arguments: str
) -> None:
    kept = trace(definition, body=f'{{"params": {{"arguments": {arguments}}}}}')
    page = Page.of(admin_client.get(make_address(definition, exchange=kept.pk)))
    assert (page.status, "they are not readable" in page.dom.text) == (200, True)
    assert not LogEntry.objects.filter(kind=LogEntry.Kind.VALUES_COPIED).exists()


def test_a_trace_needs_the_right_to_traces(definition: ToolDefinition) -> None:
    clerk = Member.objects.create_user(
        "clerk", password="a-long-password", is_staff=True, rights=["services"]
    )
    answer: Any = signed_in(clerk).get(make_address(definition, exchange=trace(definition).pk))
    assert answer.status_code == 403
    assert b"A-17" not in answer.content
