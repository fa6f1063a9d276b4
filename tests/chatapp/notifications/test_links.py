"""Links in notifications: they open a card or a chat for a person who may see it, and nothing for
others."""

from datetime import timedelta

import pytest
from django.core.signing import TimestampSigner
from django.test import Client

from chatapp.models import Member, Notification, ToolCall
from chatapp.notifications import links
from tests.chatapp.approvals.test_inbox import signed_first

from .conftest import ends, waits

pytestmark = pytest.mark.django_db(transaction=True)


def link_to(call: ToolCall) -> str:
    chat_id = call.turn.conversation_id
    told = Notification.objects.create(conversation_id=chat_id, call=call, thing="approval")
    return links.build_link(told)[links.build_link(told).index("/notifications/") :]


def test_a_link_opens_the_card_as_often_as_it_is_followed(
    owner: Member, owner_client: Client
) -> None:
    call = waits(owner)
    address = link_to(call)
    for _ in range(2):
        assert owner_client.get(address)["Location"] == f"/approvals/{call.pk}/"
    call.refresh_from_db()
    assert call.state == ToolCall.State.AWAITING_APPROVAL


def test_a_link_to_an_answer_opens_its_chat(owner: Member, owner_client: Client) -> None:
    turn = ends(owner)
    told = Notification.objects.create(conversation=turn.conversation, turn=turn)
    address = links.build_link(told)
    answer = owner_client.get(address[address.index("/notifications/") :])
    assert answer["Location"] == f"/c/{turn.conversation_id}/"


def test_a_link_opens_the_card_for_a_second_signer(
    owner: Member, stranger: Member, stranger_client: Client
) -> None:
    call = signed_first(owner, stranger)
    assert stranger_client.get(link_to(call))["Location"] == f"/approvals/{call.pk}/"


def test_who_is_not_signed_in_signs_in_first(owner: Member, client: Client) -> None:
    address = link_to(waits(owner))
    answer = client.get(address)
    assert answer["Location"].startswith("/sign-in/?next=/notifications/")


def test_a_stranger_and_an_admin_see_their_own_inbox(
    owner: Member, stranger_client: Client, admin_client: Client
) -> None:
    address = link_to(waits(owner, "A secret chat"))
    for client in (stranger_client, admin_client):
        answer = client.get(address)
        assert answer.status_code == 404
        text = answer.content.decode()
        assert "sent to someone else" in text
        assert "secret" not in text


def test_an_expired_link_says_so(
    owner: Member, owner_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = link_to(waits(owner))
    monkeypatch.setattr(links, "LIFETIME", timedelta(seconds=-1))
    answer = owner_client.get(address)
    assert answer.status_code == 410
    assert "expired" in answer.content.decode()


@pytest.mark.parametrize("change", ["forged", "short", "gone"])
def test_another_link_opens_nothing(owner: Member, owner_client: Client, change: str) -> None:
    address = link_to(waits(owner))
    if change == "gone":
        Notification.objects.all().delete()
    if change == "forged":
        told = Notification.objects.get()
        address = f"/notifications/{TimestampSigner(salt='another').sign(str(told.pk))}/"
    if change == "short":
        address = "/notifications/x/"
    assert owner_client.get(address).status_code == 404
