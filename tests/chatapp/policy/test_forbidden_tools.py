"""What a rule forbids to a person is not offered to them."""

import pytest
from django.contrib.auth.models import Group
from pytest_django import DjangoAssertNumQueries

from chatapp.models import Member, PolicyRule
from chatapp.policy.forbidden_tools import find_hidden_tools, remove_forbidden
from chatapp.tools.catalogue import load_known_catalogue
from chatapp.tools.mentions import HiddenTools
from mcpconfig.models import Service
from tests.turns.acts import create_offered_service

pytestmark = pytest.mark.django_db
NOWHERE = "https://nowhere.invalid/mcp"


@pytest.fixture
def memos(db: None) -> Service:
    return create_offered_service("memos", NOWHERE, "list_memos", "delete_memo")


@pytest.fixture
def mail(db: None) -> Service:
    return create_offered_service("mail", NOWHERE, "send_mail")


def test_it_is_left_out_for_those_whom_the_rule_is_about(
    owner: Member, stranger: Member, memos: Service, mail: Service
) -> None:
    rule = PolicyRule.objects.create(name="No", effect="deny", service=memos, tool="delete_memo")
    rule.groups.add(Group.objects.create(name="office"))
    assert "memos_delete_memo" in remove_forbidden(load_known_catalogue(owner), owner)
    owner.groups.add(rule.groups.get())
    left = remove_forbidden(load_known_catalogue(owner), owner)
    assert set(left) == {"memos_list_memos", "mail_send_mail"}
    assert left.find_known("memos_delete_memo") is left.forbidden["memos_delete_memo"]
    assert "memos_delete_memo" in remove_forbidden(load_known_catalogue(stranger), stranger)
    PolicyRule.objects.update(is_enabled=False)
    assert "memos_delete_memo" in remove_forbidden(load_known_catalogue(owner), owner)


def test_a_service_of_which_all_is_forbidden_is_not_offered_either(
    owner: Member, memos: Service, mail: Service
) -> None:
    assert find_hidden_tools(owner) == HiddenTools()
    PolicyRule.objects.create(name="No mail", effect="deny", service=mail)
    PolicyRule.objects.create(name="No deleting", effect="deny", tool="delete_memo")
    hidden = find_hidden_tools(owner)
    assert hidden.services == {mail.pk}
    assert len(hidden.definitions) == 2


def test_without_such_a_rule_it_costs_no_query_of_its_own(
    owner: Member, memos: Service, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    PolicyRule.objects.create(name="Not much", effect="deny", condition="amount > 5")
    catalogue = load_known_catalogue(owner)
    with django_assert_num_queries(0):
        assert remove_forbidden(catalogue, owner) is catalogue
