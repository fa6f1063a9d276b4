"""The page of a provider shows what its models cost so far, by model and by person."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from chatapp.models import Member, ModelProvider, Turn, UsageOfDay
from tests.dom_tree import parse
from tests.turns import rows

pytestmark = pytest.mark.django_db
MOST_STATEMENTS = 25


@pytest.fixture
def provider() -> ModelProvider:
    return ModelProvider.objects.create(slug="team", kind="openai-chat", label="Team")


def use(person: Member, model: str, cost: str, days: int = 0, currency: str = "USD") -> None:
    UsageOfDay.objects.create(
        person=person,
        day=timezone.now().date() - timedelta(days=days),
        model=model,
        currency=currency,
        calls=1,
        input_tokens=1_000,
        output_tokens=500,
        cost=Decimal(cost),
    )


def open_page(client: Client, provider: ModelProvider) -> str:
    answer: Any = client.get(f"/admin/chatapp/modelprovider/{provider.pk}/change/")
    page = parse(answer.content.decode())
    return " ".join(page.one(id="provider-usage").text.split())


def test_costs_are_summed_by_period_model_and_person(
    admin_client: Client, provider: ModelProvider, owner: Member, stranger: Member
) -> None:
    use(owner, "team:large", "1.50")
    use(stranger, "team:small", "2.25")
    use(owner, "team:small", "100", days=400)
    use(owner, "teamwork:large", "7777")
    shown = open_page(admin_client, provider)
    assert "Today3.75 USD3,000 tokens in 2 calls" in shown
    assert "In all103.75 USD" in shown
    assert "7,777" not in shown
    assert shown.index("stranger") < shown.index("owner", shown.index("stranger"))


def test_failed_answers_are_counted(
    admin_client: Client, provider: ModelProvider, owner: Member
) -> None:
    rows.turn(owner, Turn.State.FAILED)
    rows.turn(owner, Turn.State.DONE)
    Turn.objects.update(model="team:large")
    assert "1 of 2 answers failed in 30 days" in open_page(admin_client, provider)


def test_a_provider_that_was_never_used_says_so(
    admin_client: Client, provider: ModelProvider
) -> None:
    assert "never used" in open_page(admin_client, provider)


def test_the_page_is_bounded(
    admin_client: Client, provider: ModelProvider, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        use(Member.objects.create_user(f"person-{number}"), f"team:model-{number}", "1")
    with django_assert_max_num_queries(MOST_STATEMENTS):
        shown = open_page(admin_client, provider)
    assert "10 more models" in shown
    assert shown.count("person-") == 10
