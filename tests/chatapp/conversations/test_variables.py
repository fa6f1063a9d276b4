"""Variables in saved texts: which there are, and what is put in their places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.conversations.variables import fill_variables, list_missing, list_variables

NAMES = st.from_regex(r"\A[A-Za-z0-9_äß]([A-Za-z0-9_äß ]{0,20}[A-Za-z0-9_äß])?\Z")
PLAIN = st.text(alphabet=st.characters(exclude_characters="{}", exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Review {{incident}} of {{team}}, then {{incident}} again", ["incident", "team"]),
        ("{{ team }} and {{team}}", ["team"]),
        ("{{on call   person}}", ["on call person"]),
        ("{{Größe_2}}", ["Größe_2"]),
        ("{{{team}}}", ["team"]),
        ("{{team", []),
        ("{team}", []),
        ("{{}} {{ }} {{a-b}} {{a\nb}}", []),
        ("{{" + "x" * 61 + "}}", []),
    ],
)
def test_a_variable_is_a_name_in_two_braces_and_all_else_is_plain_text(
    text: str, names: list[str]
) -> None:
    assert list_variables(text) == names


def test_a_value_that_looks_like_a_variable_is_not_filled_again() -> None:
    values = {"a": "{{b}}", "b": "{{a}}"}
    assert fill_variables("{{a}} {{b}} {{c}}", values) == "{{b}} {{a}} {{c}}"


def test_names_without_a_value_or_with_spaces_only_are_missing() -> None:
    assert list_missing(["a", "b", "c"], {"a": "x", "b": " \n"}) == ["b", "c"]


@given(st.lists(st.tuples(PLAIN, NAMES), max_size=8), PLAIN, st.data())
def test_each_place_gets_its_value_and_the_text_between_stays(
    pieces: list[tuple[str, str]], end: str, data: st.DataObject
) -> None:
    names = [" ".join(name.split()) for _, name in pieces]
    values = {name: data.draw(st.text()) for name in names}
    text = "".join(f"{before}{{{{{name}}}}}" for before, name in pieces) + end
    assert list_variables(text) == list(dict.fromkeys(names))
    expected = "".join(
        before + values[name] for (before, _), name in zip(pieces, names, strict=True)
    )
    assert fill_variables(text, values) == expected + end


@given(st.text(alphabet="{} aä_1\n"))
def test_any_text_without_values_stays_as_it_is(text: str) -> None:
    assert fill_variables(text, {}) == text


def test_a_long_hostile_text_is_read_in_a_moment() -> None:
    assert list_variables("{{" * 4_000) == []
    assert list_variables(("{{" + "a " * 40) * 200) == []
