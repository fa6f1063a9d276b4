"""The admin: who may enter, what can be changed there, and what can only be read."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.messages import get_messages
from django.db.models import UUIDField
from django.test import Client
from django.utils import timezone

from chatapp.audit import chat_access
from chatapp.models import (
    Approval,
    Attachment,
    Conversation,
    Member,
    Message,
    Part,
    SignInLink,
    Step,
    ToolCall,
    Turn,
)
from mcpconfig.admin.read_only import ReadOnlyMixin
from tests.conftest import make_recent

READ_ONLY = ["conversation", "turn", "toolcall", "approval"]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def call(owner: Member, admin: Member) -> ToolCall:
    """A denied call in a finished turn of the owner's, with hostile text wherever text can be. The
    admin has given a reason to read its chat."""
    conversation = Conversation.objects.create(owner=owner, title=HOSTILE, model="demo:assistant")
    question = Message.objects.create(conversation=conversation, role=Message.Role.USER)
    answer = Message.objects.create(
        conversation=conversation, role=Message.Role.ASSISTANT, parent=question
    )
    turn = Turn.objects.create(
        conversation=conversation,
        question=question,
        answer=answer,
        model="demo:assistant",
        state=Turn.State.DONE,
    )
    Step.objects.create(turn=turn, number=1, input_tokens=1234)
    made = ToolCall.objects.create(
        turn=turn,
        step=1,
        position=0,
        provider_call_id="call-1",
        tool_id="notebook_delete_note",
        arguments=f'{{"title":"{HOSTILE}"}}',
        state=ToolCall.State.DENIED,
        risk="high",
        reasons=["The name says that it deletes."],
        why="Asked because this tool can delete data.",
    )
    Approval.objects.create(
        tool_call=made,
        binding="0" * 64,
        state=Approval.State.DENIED,
        reason="Keep it.",
        decided_by=owner,
        expires_at=timezone.now() + timedelta(days=1),
    )
    Part.objects.create(message=question, position=0, kind=Part.Kind.TEXT, text=f"Delete {HOSTILE}")
    Part.objects.create(message=answer, position=0, kind=Part.Kind.TOOL_CALL, tool_call=made)
    chat_access.open_chat(admin, conversation.pk, "A complaint.")
    return made


def addresses(call: ToolCall) -> dict[str, str]:
    keys = {
        "conversation": call.turn.conversation_id,
        "turn": call.turn_id,
        "toolcall": call.pk,
        "approval": call.pk,
    }
    return {name: f"/admin/chatapp/{name}/{key}/change/" for name, key in keys.items()}


def text(response: Any) -> str:
    return re.sub(r"\s+", " ", response.content.decode())


def test_only_admins_enter(client: Client, owner_client: Client, admin_client: Client) -> None:
    assert client.get("/admin/")["Location"].startswith("/admin/login/")
    refused = owner_client.get("/admin/", follow=True)
    assert refused.status_code == 403
    assert admin_client.get("/admin/").status_code == 200


@pytest.mark.parametrize("name", READ_ONLY)
def test_what_was_said_and_decided_can_only_be_read(
    admin_client: Client, call: ToolCall, name: str
) -> None:
    address = addresses(call)[name]
    assert admin_client.get(f"/admin/chatapp/{name}/").status_code == 200
    assert admin_client.get(address).status_code == 200
    assert admin_client.post(address, {"title": "changed", "state": "granted"}).status_code == 403
    assert admin_client.get(f"/admin/chatapp/{name}/add/").status_code == 403
    assert (
        admin_client.post(address.replace("change", "delete"), {"post": "yes"}).status_code == 403
    )


def test_every_record_with_a_uuid_is_read_only() -> None:
    """A UUID key that can be edited in a formset lets one row be moved over another."""
    for model, model_admin in django_admin.site._registry.items():
        for candidate in (model_admin, *model_admin.inlines):
            edited = getattr(candidate, "model", model)
            if not isinstance(edited._meta.pk, UUIDField):
                continue
            kind = candidate if isinstance(candidate, type) else type(candidate)
            assert issubclass(kind, ReadOnlyMixin), edited


def test_a_call_shows_risk_state_reason_and_who_decided(
    admin_client: Client, call: ToolCall
) -> None:
    shown = text(admin_client.get(addresses(call)["toolcall"]))
    for words in (
        "high",
        "denied",
        "The name says that it deletes.",
        "Asked because this tool can delete data.",
        "owner",
    ):
        assert words in shown
    turn = text(admin_client.get(addresses(call)["turn"]))
    assert "1234" in turn
    assert "notebook_delete_note" in turn
    assert "Asked because this tool can delete data." in turn
    assert "Keep it." in text(admin_client.get(addresses(call)["approval"]))


def test_a_conversation_shows_which_files_were_sent(admin_client: Client, call: ToolCall) -> None:
    turn = call.turn
    part = Part.objects.create(message=turn.question, position=7, kind=Part.Kind.FILE)
    Attachment.objects.create(
        owner=turn.conversation.owner,
        part=part,
        service_name="The library",
        uri="book://1",
        name="Emma",
        size=5,
        hash="0" * 64,
        contents=[],
    )
    shown = text(admin_client.get(addresses(call)["conversation"]))
    assert "Emma (The library)" in shown


def test_a_conversation_shows_its_messages(admin_client: Client, call: ToolCall) -> None:
    shown = text(admin_client.get(addresses(call)["conversation"]))
    assert "Delete &lt;script&gt;" in shown
    assert "notebook_delete_note: denied" in shown


def test_what_others_wrote_is_never_markup(admin_client: Client, call: ToolCall) -> None:
    for name, address in addresses(call).items():
        for page in (address, f"/admin/chatapp/{name}/"):
            assert HOSTILE not in admin_client.get(page).content.decode(), page


def test_lists_can_be_searched_and_filtered(admin_client: Client, call: ToolCall) -> None:
    for query, number in (("q=owner", 1), ("q=nobody", 0), ("state=denied", 1), ("risk=low", 0)):
        response = admin_client.get(f"/admin/chatapp/toolcall/?{query}")
        assert response.context["cl"].result_count == number, query


def test_lists_cost_the_same_queries_however_long(
    admin_client: Client, call: ToolCall, django_assert_max_num_queries: Any
) -> None:
    for position in range(1, 20):
        call.pk = None
        call.position = position
        call._state.adding = True
        call.save()
    with django_assert_max_num_queries(10):
        assert admin_client.get("/admin/chatapp/toolcall/").status_code == 200


def test_a_member_is_added_with_a_password(admin_client: Client) -> None:
    fields = {"username": "kim", "password": "a long enough phrase"}
    assert admin_client.post("/admin/chatapp/member/add/", fields).status_code == 302
    kim = Member.objects.get(username="kim")
    assert kim.check_password("a long enough phrase")
    assert (kim.is_staff, kim.is_superuser) == (False, False)


def test_a_member_without_a_password_gets_a_link_that_is_shown_once(admin_client: Client) -> None:
    added = make_recent(admin_client).post(
        "/admin/chatapp/member/add/", {"username": "kim", "is_superuser": "on"}
    )
    shown = " ".join(str(message) for message in get_messages(added.wsgi_request))
    found = re.search(r"/sign-in/([\w-]+)/", shown)
    assert found
    assert SignInLink.redeem(found[1]) == Member.objects.get(username="kim", is_superuser=True)
    assert found[1] in text(admin_client.get(added["Location"]))
    assert found[1] not in text(admin_client.get(added["Location"]))


def test_a_weak_password_is_refused_in_words(admin_client: Client) -> None:
    response = admin_client.post("/admin/chatapp/member/add/", {"username": "k", "password": "123"})
    assert response.status_code == 200
    assert "too short" in text(response)
    assert not Member.objects.filter(username="k").exists()


def test_an_admin_can_make_a_link_for_somebody_who_forgot(
    admin_client: Client, owner: Member
) -> None:
    action = {"action": "make_sign_in_links", "_selected_action": [owner.pk]}
    admin_client.post("/settings/confirm/", {"password": "admin-password"})
    shown = text(admin_client.post("/admin/chatapp/member/", action, follow=True))
    found = re.search(r"/sign-in/([\w-]+)/", shown)
    assert found
    assert SignInLink.redeem(found[1]) == owner


def test_the_admin_runs_under_the_content_policy(admin_client: Client, call: ToolCall) -> None:
    pages = ["/admin/", "/admin/chatapp/member/", "/admin/chatapp/member/add/"]
    for address in (*pages, *addresses(call).values()):
        response = admin_client.get(address)
        assert "script-src 'self'" in response["Content-Security-Policy"]
        html = response.content.decode()
        assert not re.findall(r"<style|<script(?![^>]*\bsrc=)(?![^>]*application/json)", html), (
            address
        )
        assert not re.findall(r"<[^>]+\s(?:style|on\w+)\s*=", html), address
