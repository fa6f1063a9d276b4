"""What model calls cost, who used how much, and what happens when an allowance is used up."""

import asyncio
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError

from chatapp.conversations import intake, retry
from chatapp.engine.runtime import EngineRuntime
from chatapp.live import page_facts
from chatapp.live.page_facts import load_gauge
from chatapp.models import Allowance, ChatModel, Member, ModelProvider, Step, Turn, UsageOfDay
from chatapp.people.refused import Refused
from chatapp.providers.access import usage
from chatapp.providers.estimate import count_text_tokens, count_tokens
from chatapp.providers.events import (
    ArgumentsDelta,
    Finished,
    PictureMade,
    ProviderError,
    TextDelta,
    ToolsLeftOut,
    Usage,
)
from chatapp.rendering.page_values import Gauge
from chatapp.rendering.pages import fragments
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import parse
from tests.scripted import Pause, Scene, calls
from tests.turns.acts import read_notices, wait_for_rest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
USED = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=200_000)


def answer(used: Usage = USED) -> Scene:
    return [TextDelta(text="Well."), used, Finished(reason="stop")]


def priced(**values: Any) -> ChatModel:
    prices = {
        "input_price": Decimal(3),
        "cached_price": Decimal("0.3"),
        "output_price": Decimal(15),
    }
    provider = ModelProvider(slug="house", kind=values.pop("kind", "openai"))
    return ChatModel(provider=provider, **{"name": "m", **prices, **values})


KEPT = Usage(input_tokens=1_000_000, cached_tokens=400_000, cache_write_tokens=200_000)
NOVA, CLAUDE = "amazon.nova-pro-v1:0", "eu.anthropic.claude-sonnet-5-5-v1:0"


@pytest.mark.parametrize(
    ("facts", "used", "cost"),
    [
        (priced(), USED, "4.92"),  # 0.6 × 3 + 0.4 × 0.3 + 0.2 × 15
        (priced(cached_price=None), USED, "6"),
        (priced(), KEPT, "1.92"),  # 0.6 × 3 + 0.4 × 0.3
        (priced(kind="anthropic"), KEPT, "2.07"),  # 0.4 × 3 + 0.2 × 3.75 + 0.4 × 0.3
        (priced(kind="bedrock", name=CLAUDE), KEPT, "2.07"),
        (priced(kind="bedrock", name=NOVA), KEPT, "1.92"),
        (priced(kind="anthropic", cache_write_price=Decimal(6)), KEPT, "2.52"),
        (priced(kind="anthropic"), Usage(input_tokens=1, cache_write_tokens=5), "0.00000375"),
        (priced(), Usage(input_tokens=1), "0.000003"),
        (priced(), Usage(input_tokens=1, cached_tokens=5), "0.0000003"),
    ],
)
def test_a_call_costs_what_its_tokens_cost(facts: ChatModel, used: Usage, cost: str) -> None:
    price = usage.find_price(facts)
    assert price is not None
    assert price.compute_cost(used) == Decimal(cost)


@pytest.mark.parametrize("missing", ["input_price", "output_price"])
def test_a_model_with_half_a_price_has_none(missing: str) -> None:
    assert usage.find_price(priced(**{missing: None})) is None
    assert usage.find_price(None) is None


async def test_every_model_call_is_counted_once_for_its_person_and_day(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    asked = calls(("unheard_of", "{}"))
    scripted.scenes += [asked, answer(Usage(input_tokens=7, cached_tokens=2, output_tokens=5))]
    await wait_for_rest(runtime, turn)
    row = await in_database(UsageOfDay.objects.get, person=owner)
    assert (row.model, row.calls, row.currency) == (scripted.MODEL, 2, "")
    assert (row.input_tokens, row.cached_tokens, row.output_tokens) == (3 + 7, 2, 2 + 5)
    assert row.unpriced_tokens == 3 + 7 + 2 + 5
    await in_database(turn.conversation.delete)
    assert await in_database(UsageOfDay.objects.filter(person=owner).exists)


UNTOLD: list[tuple[Scene, bool]] = [
    (
        [TextDelta(text="Well, " * 9), ProviderError(kind="network", message="The line broke.")],
        True,
    ),
    ([ArgumentsDelta(index=0, text='{"text": "Well'), Finished(reason="length")], True),
    ([TextDelta(text="Well."), Finished(reason="stop")], True),
    (
        [PictureMade(base64="eA=="), ProviderError(kind="network", message="The line broke.")],
        True,
    ),
    ([ToolsLeftOut(), ProviderError(kind="auth", message="The key is wrong.")], False),
    ([ProviderError(kind="auth", message="The key is wrong.")], False),
]


@pytest.mark.parametrize(("scene", "is_counted"), UNTOLD)
async def test_an_answer_whose_provider_does_not_say_what_it_used_is_estimated(
    runtime: EngineRuntime, turn: Turn, scene: Scene, is_counted: bool
) -> None:
    scripted.scenes.append(scene)
    await wait_for_rest(runtime, turn)
    step = await in_database(turn.steps.get)
    said = "".join(e.text for e in scene if isinstance(e, TextDelta | ArgumentsDelta))
    estimate = (
        (count_tokens(scripted.requests[0]), count_text_tokens(said)) if is_counted else (0, 0)
    )
    assert (step.input_tokens, step.output_tokens) == estimate
    rows = UsageOfDay.objects.values_list("input_tokens", "output_tokens")
    assert await in_database(list, rows) == [estimate] * is_counted


async def test_stop_does_not_make_an_answer_free(runtime: EngineRuntime, turn: Turn) -> None:
    pause = Pause()
    scripted.scenes.append([TextDelta(text="Well, " * 9), pause, *answer()])
    runtime.engine.wake(turn.pk)
    async with asyncio.timeout(60):
        await pause.reached.wait()
    await in_database(intake.stop, turn.conversation)
    assert (await wait_for_rest(runtime, turn)).state == Turn.State.STOPPED
    counted = await in_database(UsageOfDay.objects.get)
    assert counted.input_tokens == count_tokens(scripted.requests[0])
    assert counted.output_tokens == count_text_tokens("Well, " * 9)


def with_prices() -> str:
    """A model of an admin's, with prices; its id."""
    provider = ModelProvider.objects.create(
        slug="house", kind="openai", label="House", base_url="http://127.0.0.1:9", key_place="none"
    )
    prices = {"input_price": Decimal(3), "output_price": Decimal(15), "currency": "EUR"}
    ChatModel.objects.create(provider=provider, name="m", context_tokens=10_000, **prices)
    return "house:m"


def closed_step(turn: Turn, **values: Any) -> Step:
    return Step.objects.create(turn=turn, state=Step.State.DONE, **{"number": 1, **values})


def test_a_page_says_what_an_answer_cost_and_how_full_the_chat_is(
    turn: Turn, owner: Member
) -> None:
    turn.conversation.model = with_prices()
    turn.conversation.save()
    Turn.objects.filter(pk=turn.pk).update(state=Turn.State.DONE, reason="complete")
    costs = {"cost": Decimal("0.01239"), "currency": "EUR"}
    closed_step(turn, input_tokens=3_000, output_tokens=401, **costs)
    page = parse(signed_in(owner).get(f"/c/{turn.conversation_id}/").content.decode())
    gauge = page.one("details", id="gauge")
    assert gauge.one("circle", class_="used")["stroke-dasharray"] == "35 100"
    assert gauge.one("summary").text.strip() == "35 % of context used"
    assert "data-full" not in gauge
    assert "3,401 of 10,000 tokens" in gauge.text
    assert "3,401 tokens in total" in gauge.text
    assert "0.012 EUR" in gauge.text
    assert page.one("div", id=f"status-{turn.answer_id}").text.endswith("401 tokens · 0.012 EUR")


def test_the_size_of_a_context_is_looked_up_once_a_minute(
    turn: Turn, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    closed_step(turn, input_tokens=1_230, output_tokens=4)
    first = load_gauge(turn.conversation)
    monkeypatch.setattr(page_facts, "KEPT_SECONDS", 1e9)
    load_gauge(turn.conversation)
    with django_assert_num_queries(1):
        assert load_gauge(turn.conversation) == first
    monkeypatch.setattr(page_facts, "KEPT_SECONDS", 1e-9)
    with django_assert_num_queries(2):
        assert load_gauge(turn.conversation) == first


def test_a_chat_whose_model_has_no_known_size_says_how_many_tokens_it_reads(turn: Turn) -> None:
    closed_step(turn, input_tokens=1_230, output_tokens=4)
    gauge = load_gauge(turn.conversation)
    assert (gauge.percent, gauge.tokens, gauge.costs) == (None, 1_234, ())
    shown = parse(fragments.render_gauge(gauge)).one("details")
    assert not shown.all("circle", class_="used")
    assert "Context: 1,234 tokens" in shown.text


def test_a_chat_whose_model_has_no_price_says_how_much_it_took_in_all(turn: Turn) -> None:
    closed_step(turn, input_tokens=1_000, output_tokens=200)
    closed_step(turn, number=2, input_tokens=1_500, output_tokens=300, summary_input_tokens=4_000)
    gauge = load_gauge(turn.conversation)
    assert (gauge.tokens, gauge.total_tokens, gauge.costs) == (1_800, 7_000, ())
    shown = parse(fragments.render_gauge(gauge)).one("details")
    assert "7,000 tokens in total" in shown.text


@pytest.mark.parametrize(("tokens", "is_full"), [(8_000, False), (8_001, True), (20_000, True)])
def test_a_ring_that_is_nearly_full_looks_so(tokens: int, is_full: bool) -> None:
    gauge = Gauge(tokens=tokens, total_tokens=tokens, context_tokens=10_000)
    shown = parse(fragments.render_gauge(gauge)).one("details")
    assert ("data-full" in shown) is is_full


def test_a_chat_that_used_nothing_has_no_ring() -> None:
    shown = parse(fragments.render_gauge(Gauge())).one("details", id="gauge")
    assert "hidden" in shown and not shown.all()


# --- allowances ----------------------------------------------------------------------------
def used_by(person: Member, tokens: int = 0, cost: str = "0", day: date | None = None) -> None:
    UsageOfDay.objects.create(
        person=person,
        day=day or date.today(),
        model="m",
        currency="USD",
        output_tokens=tokens,
        cost=Decimal(cost),
    )


def test_an_allowance_of_tokens_is_used_up_when_they_are(owner: Member) -> None:
    allowance = Allowance.objects.create(person=owner, tokens=1_000)
    used_by(owner, tokens=999)
    assert usage.find_used_up_allowance(owner) == ""
    UsageOfDay.objects.update(output_tokens=1_000)
    assert usage.find_used_up_allowance(owner) == (
        "You have used 1,000 of your 1,000 tokens a month."
    )
    allowance.delete()
    assert usage.find_used_up_allowance(owner) == ""


def test_an_allowance_of_money_counts_its_own_currency_only(owner: Member) -> None:
    Allowance.objects.create(person=owner, cost=Decimal(5), currency="EUR")
    used_by(owner, cost="7")
    assert usage.find_used_up_allowance(owner) == ""
    UsageOfDay.objects.update(currency="EUR")
    assert usage.find_used_up_allowance(owner) == ("You have used 7.00 of your 5.00 EUR a month.")


def test_last_month_does_not_count(owner: Member) -> None:
    Allowance.objects.create(person=owner, tokens=10)
    used_by(owner, tokens=10, day=date(2026, 10, 31))
    assert [standing.tokens for standing in usage.list_allowance_use(owner, date(2026, 11, 1))] == [
        0
    ]
    assert [
        standing.tokens for standing in usage.list_allowance_use(owner, date(2026, 10, 31))
    ] == [10]


@pytest.mark.parametrize(
    ("today", "begins"),
    [(date(2026, 11, 30), "1 December"), (date(2026, 12, 31), "1 January")],
)
def test_the_hint_names_the_day_on_which_it_begins_anew(today: date, begins: str) -> None:
    assert usage.describe_renewal(today) == f"It resets on {begins}. An admin can raise it."


@pytest.mark.parametrize(("is_shared", "is_over"), [(True, True), (False, False)])
def test_a_group_uses_its_allowance_up_together_or_each_their_own(
    owner: Member, is_shared: bool, is_over: bool
) -> None:
    other = Member.objects.create_user("other", password="a-long-password")
    outsider = Member.objects.create_user("outsider", password="a-long-password")
    group = Group.objects.create(name="Finance")
    group.user_set.add(owner, other)
    Allowance.objects.create(group=group, is_shared=is_shared, tokens=100)
    used_by(owner, tokens=50)
    used_by(other, tokens=50)
    used_by(outsider, tokens=500)
    assert bool(usage.find_used_up_allowance(owner)) is is_over
    assert usage.find_used_up_allowance(outsider) == ""
    if is_shared:
        assert usage.find_used_up_allowance(owner).startswith(
            "Your group has used 100 of its 100 tokens"
        )


def test_an_allowance_without_a_holder_binds_everybody(owner: Member) -> None:
    Allowance.objects.create(tokens=1)
    used_by(owner, tokens=1)
    assert usage.find_used_up_allowance(owner)


def test_an_allowance_is_of_one_holder_and_of_something(owner: Member) -> None:
    group = Group.objects.create(name="Finance")
    for values in ({"person": owner, "group": group, "tokens": 1}, {"person": owner}):
        with pytest.raises(IntegrityError):
            Allowance.objects.create(**values)


async def test_a_turn_that_uses_the_allowance_up_ends_before_its_next_model_call(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    await in_database(Allowance.objects.create, person=owner, tokens=5)
    scripted.scenes += [calls(("unheard_of", "{}")), answer()]
    done = await wait_for_rest(runtime, turn)
    assert (done.state, done.reason) == (Turn.State.DONE, "budget")
    assert len(scripted.requests) == 1
    (notice,) = await in_database(read_notices, turn)
    assert "5 of your 5 tokens" in notice


def test_a_message_that_nobody_will_answer_is_refused_and_stays_in_the_box(
    turn: Turn, owner: Member
) -> None:
    Turn.objects.update(state=Turn.State.FAILED)
    Allowance.objects.create(person=owner, tokens=5)
    used_by(owner, tokens=5)
    fields = {"text": "typed with care", "model": scripted.MODEL}
    answered = signed_in(owner).post(f"/c/{turn.conversation_id}/messages", fields)
    assert answered.status_code == 409
    page = parse(answered.content.decode())
    assert page.one("textarea").text == "typed with care"
    assert "5 of your 5 tokens" in page.one("div", id="composer-notice").text
    with pytest.raises(Refused, match="5 of your 5 tokens"):
        retry.ask_again(turn.conversation, owner, scripted.MODEL)
    with pytest.raises(Refused, match="It resets on 1"):
        intake.receive(owner, None, text="Hello", model=scripted.MODEL)


def test_people_see_what_they_used_and_nobody_elses(owner: Member) -> None:
    other = Member.objects.create_user("other", password="a-long-password")
    used_by(owner, tokens=1_234, cost="0.5")
    Allowance.objects.create(person=owner, tokens=2_468)
    page = parse(signed_in(owner).get("/usage/").content.decode())
    assert "1,234" in page.one("table").text
    assert "0.5000 USD" in page.one("table").text
    assert page.one("meter")["value"] == "0.50"
    assert "No usage this month." in signed_in(other).get("/usage/").content.decode()


# --- the admin -----------------------------------------------------------------------------
def test_an_admin_may_say_what_tokens_cost_that_a_provider_keeps(transactional_db: None) -> None:
    with_prices()
    admin = Member.objects.create_superuser("admin", password="a-long-password")
    page = parse(signed_in(admin).get("/admin/chatapp/chatmodel/add/").content.decode())
    stated = {"provider": str(ModelProvider.objects.get().pk), "name": "kept", "position": "10"}
    stated |= {"audience": "everyone", "currency": "USD", "cache_write_price": "3.6"}
    signed_in(admin).post("/admin/chatapp/chatmodel/add/", stated)
    assert ChatModel.objects.get(name="kept").cache_write_price == Decimal("3.6")
    assert "1.25 times the input price for Claude" in page.text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"currency": "USD"}, "Enter a number of tokens, a cost, or both"),
        (
            {"tokens": "5", "is_shared": "on", "currency": "USD"},
            "Only a group can share an allowance",
        ),
        ({"tokens": "0", "currency": "USD"}, "greater than or equal to 1"),
        ({"tokens": "5", "currency": "usd"}, "three-letter currency code"),
    ],
)
def test_an_allowance_that_makes_no_sense_is_refused_in_words(
    transactional_db: None, fields: dict[str, str], says: str
) -> None:
    admin = Member.objects.create_superuser("admin", password="a-long-password")
    answered = signed_in(admin).post("/admin/chatapp/allowance/add/", fields)
    assert says in answered.content.decode()
    assert not Allowance.objects.exists()


def test_the_admin_adds_up_what_the_filters_leave(owner: Member) -> None:
    admin = Member.objects.create_superuser("admin", password="a-long-password")
    used_by(owner, tokens=1_000, cost="2.50")
    page = signed_in(admin).get("/admin/chatapp/usageofday/").content.decode()
    assert "output tokens: 1,000 · cost: 2.50 USD" in " ".join(page.split())
