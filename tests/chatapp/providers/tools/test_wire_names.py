"""Names in the alphabet of each provider, one to one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.providers.openai.provider import DIALECT as OPENAI
from chatapp.providers.registry import DIALECTS
from chatapp.providers.tools.wire_names import WireNames

PATTERNS = {
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "openai-chat": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "google": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}",
    "bedrock": r"[a-zA-Z0-9_-]{1,64}",
}


@pytest.mark.parametrize("kind", DIALECTS)
@given(names=st.lists(st.text(min_size=1, max_size=130), max_size=12))
def test_every_name_is_taken_and_finds_its_way_back(kind: str, names: list[str]) -> None:
    rule = DIALECTS[kind].names
    wire_names = WireNames(rule, names)
    sent = [wire_names.to_wire(name) for name in names]
    assert all(re.fullmatch(PATTERNS[kind], wire) for wire in sent)
    assert [wire_names.from_wire(wire) for wire in sent] == names
    assert len(set(sent)) == len(set(names))
    assert WireNames(rule, reversed(names)).to_wire("x.y") == wire_names.to_wire("x.y")


def test_a_tool_id_passes_where_the_alphabet_has_it() -> None:
    for kind in ("anthropic", "google"):
        names = WireNames(DIALECTS[kind].names, [])
        assert names.to_wire("a_" + "b" * 122) == "a_" + "b" * 122
    assert WireNames(DIALECTS["google"].names, []).to_wire("files_read.text") == "files_read.text"


def test_a_name_that_imitates_another_ones_wire_name_takes_nothing_from_it() -> None:
    imitation = WireNames(OPENAI.names, ["a.b"]).to_wire("a.b")
    names = WireNames(OPENAI.names, [imitation, "a.b"])
    assert names.to_wire(imitation) == imitation
    assert names.from_wire(names.to_wire("a.b")) == "a.b"
    assert names.to_wire("a.b") != imitation
