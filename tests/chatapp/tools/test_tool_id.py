"""Every tool has a name that a model can use and that leads back to exactly one tool."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chatapp.providers.registry import DIALECTS
from chatapp.providers.tools.wire_names import WireNames
from chatapp.tools.tool_id import MAX_LENGTH, tool_id

VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
texts = st.text(max_size=200) | st.text("ab_.-9", max_size=8) | st.text("a_", max_size=160)
limits = st.integers(32, MAX_LENGTH)


@pytest.mark.parametrize(
    ("service", "tool", "name"),
    [
        ("memos", "delete", "memos_delete"),
        ("memos", "delete_all", "memos_delete_all"),
        ("my-memos", "v1.delete", "my-memos_v1.delete"),
        ("memos", "_x", "memos__x"),
    ],
)
def test_a_plain_pair_keeps_its_plain_name(service: str, tool: str, name: str) -> None:
    assert tool_id(service, tool) == name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a_b", "c"), ("a", "b_c")),
        (("a", "b c"), ("a", "b_c")),
        (("a", "b/c"), ("a", "b.c")),
        (("a", "é"), ("a", "e\u0301")),
        (("a", "B"), ("a", "b")),
        (("a", "x" * 200), ("a", "x" * 201)),
        (("9a", "b"), ("_9a", "b")),
        (("", "a"), ("_", "a")),
        (("a", ""), ("a_", "")),
    ],
)
def test_pairs_that_look_alike_have_different_ids(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert tool_id(*one) != tool_id(*other)


def test_a_tool_cannot_take_the_id_that_another_was_given() -> None:
    given_to_another = tool_id("a_b", "c")
    service, _, tool = given_to_another.partition("_")
    assert tool_id(service, tool) != given_to_another


def test_what_is_too_long_is_shared_in_proportion() -> None:
    name = tool_id("s" * 60, "t" * 180)
    assert len(name) == MAX_LENGTH
    assert name.startswith("s" * 27 + "_t")
    assert tool_id("memos", "t" * 200).startswith("me_t")


@given(texts, texts, limits)
def test_every_id_is_valid_and_stable(service: str, tool: str, limit: int) -> None:
    name = tool_id(service, tool, limit)
    assert VALID.fullmatch(name)
    assert len(name) <= limit
    assert name == tool_id(service, tool, limit)


@given(texts, texts, texts, texts, limits)
def test_different_pairs_have_different_ids(
    service: str, tool: str, other_service: str, other_tool: str, limit: int
) -> None:
    assume((service, tool) != (other_service, other_tool))
    assert tool_id(service, tool, limit) != tool_id(other_service, other_tool, limit)


@given(st.text("ab_", max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_however_a_text_is_cut_in_two_the_ids_differ(text: str, one: int, other: int) -> None:
    assume(min(one, len(text)) != min(other, len(text)))
    assert tool_id(text[:one], text[one:]) != tool_id(text[:other], text[other:])


@given(texts, texts, limits)
def test_an_id_read_as_a_pair_again_is_no_other_pairs_id(
    service: str, tool: str, limit: int
) -> None:
    name = tool_id(service, tool, limit)
    for cut in (position for position, letter in enumerate(name) if letter == "_"):
        pair = (name[:cut], name[cut + 1 :])
        assert pair == (service, tool) or tool_id(*pair, limit) != name


@pytest.mark.parametrize("kind", DIALECTS)
@given(st.lists(st.tuples(texts, texts), max_size=8, unique=True))
def test_from_what_any_provider_says_the_way_back_to_the_pair_is_exact(
    kind: str, pairs: list[tuple[str, str]]
) -> None:
    ids = {tool_id(*pair): pair for pair in pairs}
    names = WireNames(DIALECTS[kind].names, ids)
    sent = [names.to_wire(tool_id(*pair)) for pair in pairs]
    assert all(DIALECTS[kind].names.takes(wire) for wire in sent)
    assert [ids[names.from_wire(wire)] for wire in sent] == pairs
