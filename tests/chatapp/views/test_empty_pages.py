"""An empty page says what will be there and what to do."""

import pytest
from django.test import Client

from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.turns.second_signers import member, second_signature


def open_page(client: Client, address: str) -> Element:
    answer = client.get(address)
    assert answer.status_code == 200
    return parse(answer.content.decode())


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("/", "No chats yet."),
        ("/approvals/", "Nothing needs your answer."),
        ("/consents/", "You haven’t allowed anything in advance."),
        ("/memory/", "No memories yet."),
        ("/archived/", "No archived chats."),
        ("/tokens/", "No access tokens yet."),
        ("/shared-links/", "No active links."),
        ("/usage/", "No usage this month."),
        ("/services/", "You have no services yet."),
    ],
)
def test_an_empty_page_of_a_member_says_what_will_be_there(
    owner_client: Client, address: str, what: str
) -> None:
    said = [line.text.strip() for line in open_page(owner_client, address).with_class("nothing")]
    (line,) = [each for each in said if each.startswith(what)]
    assert len(line) > len(what) + 10, "It also says what to do, or what will be there."


@pytest.mark.django_db
def test_an_approver_without_a_delegate_reads_what_to_do() -> None:
    second_signature()
    said = open_page(signed_in(member("ada", "Operations")), "/stand-ins/").with_class("nothing")
    assert any("Add a delegate" in line.text for line in said)


@pytest.mark.parametrize("address", ["/services/", "/tools/"])
def test_only_an_admin_without_services_reads_where_to_add_one(
    owner_client: Client, admin_client: Client, address: str
) -> None:
    leads_to = "/admin/mcpconfig/service/connect/"
    assert open_page(admin_client, address).all("a", href=leads_to)
    assert open_page(owner_client, address).all("a", href=leads_to) == []
