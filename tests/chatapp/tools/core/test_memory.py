"""Remembering, recalling and forgetting: within limits, and each person's own."""

import pytest
from django.http import Http404

from chatapp.models import Member, Memory
from chatapp.models.conversations import memory as limits
from chatapp.models.conversations.memory import MEMORIES_PER_PERSON, MEMORY_CHARACTERS
from chatapp.tools.context import ToolError
from chatapp.tools.core import recall

from .core_calls import run, told

pytestmark = pytest.mark.django_db
FACT = "Reports go out on Mondays."


def test_what_is_remembered_is_recalled(owner: Member) -> None:
    kept = run("remember", owner, text=f"  {FACT}\n")
    assert (kept["text"], kept["is_new"]) == (FACT, True)
    facts = run("recall", owner)["facts"]
    assert [(fact["id"], fact["text"]) for fact in facts] == [(kept["id"], FACT)]
    assert FACT in told("recall", owner, words="MONDAYS tea")


def test_the_same_words_are_kept_once(owner: Member) -> None:
    first, second = run("remember", owner, text=FACT), run("remember", owner, text=FACT.upper())
    assert (second["id"], second["is_new"]) == (first["id"], False)
    assert Memory.objects.count() == 1


def test_facts_with_more_of_the_words_come_first(owner: Member) -> None:
    for text in ("I like tea.", "Tea with milk, please.", "Reports are due on Mondays."):
        run("remember", owner, text=text)
    found = run("recall", owner, words="tea milk")["facts"]
    assert [fact["text"] for fact in found] == ["Tea with milk, please.", "I like tea."]
    assert told("recall", owner, words="coffee") == "Nothing is remembered that fits."


def test_recall_is_bounded_and_says_so(owner: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "MOST", 2)
    for number in range(3):
        run("remember", owner, text=f"Fact {number}")
    found = run("recall", owner)
    assert [fact["text"] for fact in found["facts"]] == ["Fact 2", "Fact 1"]
    assert found["more"] == 1
    assert told("recall", owner).endswith("1 more are not listed.")


@pytest.mark.parametrize("text", ["", "x" * (MEMORY_CHARACTERS + 1), " \n "])
def test_a_fact_has_a_size(owner: Member, text: str) -> None:
    with pytest.raises(ToolError) as refused:
        run("remember", owner, text=text)
    assert refused.value.field == "text"
    assert not Memory.objects.exists()


def test_beyond_the_limit_nothing_is_kept_until_something_is_forgotten(
    owner: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEMORIES_PER_PERSON", 2)
    kept = [run("remember", owner, text=text) for text in ("One.", "Two.")]
    with pytest.raises(ToolError, match=f"{MEMORIES_PER_PERSON} facts are remembered"):
        run("remember", owner, text="Three.")
    run("forget", owner, id=kept[0]["id"], text="One.")
    assert run("remember", owner, text="Three.")["is_new"]


def test_what_is_forgotten_is_named_by_number_and_words(owner: Member) -> None:
    kept = run("remember", owner, text=FACT)
    with pytest.raises(ToolError, match="says something else: Reports") as refused:
        run("forget", owner, id=kept["id"], text="Reports go out on Fridays.")
    assert refused.value.field == "text"
    assert Memory.objects.exists()
    assert told("forget", owner, id=kept["id"], text=FACT) == f"Forgotten: {FACT}"
    assert not Memory.objects.exists()


def test_another_persons_facts_are_neither_told_nor_found(owner: Member, stranger: Member) -> None:
    run("remember", owner, text=FACT)
    assert run("recall", stranger)["facts"] == []
    assert run("recall", stranger, words="mondays")["facts"] == []
    assert run("remember", stranger, text=FACT)["is_new"]


def test_another_persons_fact_is_not_forgotten_by_a_guessed_number(
    owner: Member, stranger: Member
) -> None:
    kept = run("remember", owner, text=FACT)
    with pytest.raises(ToolError, match="no fact of this number") as refused:
        run("forget", stranger, id=kept["id"], text=FACT)
    with pytest.raises(ToolError) as unknown:
        run("forget", stranger, id=kept["id"] + 1, text=FACT)
    assert str(refused.value) == str(unknown.value)
    assert FACT not in str(refused.value)
    with pytest.raises(Http404):
        Memory.of(stranger, kept["id"])
    assert Memory.of(owner, kept["id"]).text == FACT


def test_a_fact_that_strangers_words_led_to_taints_what_recalls_it(owner: Member) -> None:
    Memory.keep(owner, "Pay into account 7.", tainted_by="mail")
    Memory.keep(owner, FACT)
    assert run("recall", owner)["tainted_by"] == "mail"
    assert run("recall", owner, words="mondays")["tainted_by"] == ""
