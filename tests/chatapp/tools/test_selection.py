"""Which tools a turn may use: exactly what is mentioned, else what is switched on."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.tools.selection import (
    Mention,
    Origin,
    Selection,
    Switches,
    build_mention,
    build_notice,
    filter_by_mentions,
    filter_by_switches,
    list_switched_on,
    list_unmet,
    parse_mentions,
    select,
)


@dataclass(frozen=True)
class Tool:
    service_name: str
    tool_name: str
    origin: Origin = "service"


ALL = {
    "memos_list": Tool("memos", "list"),
    "memos_delete": Tool("memos", "delete"),
    "mail_send": Tool("mail", "send"),
    "mail_send.1": Tool("mail", "Send it now."),
    "remember": Tool("", "remember", "core"),
}
MEMOS = {"memos_list", "memos_delete"}
MAIL = {"mail_send", "mail_send.1"}
CORE = {"remember"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no mention", ()),
        ("", ()),
        ("@memos", ("@memos",)),
        ("ask @memos.", ("@memos",)),
        ("(@memos/list), please", ("@memos/list",)),
        ("@memos/list.", ("@memos/list",)),
        ("@memos/v1.list now", ("@memos/v1.list",)),
        ("@a-b_c/x-y_z:1?", ("@a-b_c/x-y_z:1",)),
        ("@memos and @mail/send and @memos", ("@memos", "@mail/send")),
        ("first line\n@mail\ttab", ("@mail",)),
        ("“@mail” *@memos*", ("@mail", "@memos")),
        ("@memos/", ("@memos",)),
        ("write to me@mail.test", ()),
        ("see https://mail.test/@memos/list", ()),
        ("a lone @ sign, and @ memos", ()),
        ("`@memos` is code", ()),
        ("```python\n@memos\ndef f(): ...\n```\n@mail", ("@mail",)),
        ("~~~\n@memos", ()),
        ("one ` backtick, @memos", ("@memos",)),
        ("``@memos ` @mail`` @memos", ("@memos",)),
    ],
)
def test_a_mention_stands_at_the_beginning_of_a_word_outside_code(
    text: str, expected: tuple[str, ...]
) -> None:
    assert tuple(map(str, parse_mentions(text))) == expected


@pytest.mark.parametrize(
    ("said", "text", "switches", "are_tools_off", "expected"),
    [
        ("`@service` = all its tools", "@memos", {}, False, MEMOS),
        ("`@service/tool` = that one", "@memos/list", {}, False, {"memos_list"}),
        ("mentions give what is mentioned", "@memos/list @mail", {}, False, {"memos_list"} | MAIL),
        (
            "whatever the switches say",
            "@memos",
            {("memos", ""): False, ("mail", ""): True},
            False,
            MEMOS,
        ),
        ("also for a tool that is off", "@memos/list", {("memos", "list"): False}, False,
         {"memos_list"}),
        ("without mentions the switched-on tools apply", "hello", {("memos", ""): False}, False,
         MAIL | CORE),
        ("per tool", "hello", {("memos", "list"): False}, False, set(ALL) - {"memos_list"}),
        ("one tool of a service that is off", "hello",
         {("memos", ""): False, ("memos", "list"): True, ("mail", ""): False}, False,
         {"memos_list"} | CORE),
        ("an empty selection gives no service tools", "hello",
         {("memos", ""): False, ("mail", ""): False}, False, CORE),
        ("tools off for a chat gives none at all", "hello", {}, True, set()),
        ("tools off for a chat, whatever is mentioned", "@memos", {}, True, set()),
        ("what nobody touched is on", "hello", {}, False, set(ALL)),
        ("an unknown mention is never silently everything", "@nobody", {}, False, set()),
        ("an unknown tool of a known service is not the service", "@memos/nothing", {}, False,
         set()),
        ("an unknown mention beside a known one", "@nobody @mail/send", {}, False, {"mail_send"}),
        ("a name as people write it", "@Memos/LIST", {}, False, {"memos_list"}),
        ("a name that cannot be written", "@mail/Send_it_now_", {}, False, {"mail_send.1"}),
    ],
)  # fmt: skip
def test_the_filters_do_as_they_say(
    said: str,
    text: str,
    switches: dict[tuple[str, str], bool],
    are_tools_off: bool,
    expected: set[str],
) -> None:
    selection = Selection(
        mentions=parse_mentions(text),
        switches=Switches(everywhere=switches),
        are_tools_off=are_tools_off,
    )
    assert set(select(ALL, selection)) == expected, said


def test_an_empty_list_of_mentions_filters_nothing() -> None:
    assert filter_by_mentions(ALL, []) == ALL


def test_an_empty_selection_gives_no_service_tools() -> None:
    assert set(filter_by_switches(ALL, [])) == CORE


def test_a_core_tool_needs_no_switch_and_hears_none() -> None:
    assert set(filter_by_switches(ALL, list_switched_on(ALL, Switches()))) == set(ALL)
    off = Switches(everywhere={("", "remember"): False, ("", ""): False})
    assert set(filter_by_switches(ALL, list_switched_on(ALL, off))) == set(ALL)


@pytest.mark.parametrize(
    ("here", "everywhere", "is_on"),
    [
        ({}, {}, True),
        ({}, {("memos", ""): False}, False),
        ({}, {("memos", ""): False, ("memos", "list"): True}, True),
        ({("memos", ""): True}, {("memos", ""): False}, True),
        ({("memos", ""): True}, {("memos", "list"): False}, True),
        ({("memos", ""): False}, {("memos", "list"): True}, False),
        ({("memos", "list"): False, ("memos", ""): True}, {}, False),
        ({("mail", ""): False, ("memos", "delete"): False}, {}, True),
    ],
)
def test_the_chat_comes_before_all_chats_and_the_tool_before_its_service(
    here: dict[tuple[str, str], bool], everywhere: dict[tuple[str, str], bool], is_on: bool
) -> None:
    assert Switches(here=here, everywhere=everywhere).is_on("memos", "list") is is_on


def test_a_name_to_the_letter_comes_before_those_that_are_written_alike() -> None:
    tools = {"1": Tool("memos", "a_b"), "2": Tool("memos", "a b"), "3": Tool("memos", "A_B")}
    assert set(filter_by_mentions(tools, parse_mentions("@memos/a_b"))) == {"1"}
    assert set(filter_by_mentions(tools, parse_mentions("@memos/a_B"))) == {"1", "2", "3"}


def test_what_is_unmet_is_named_unless_something_else_is_said_of_its_service() -> None:
    mentions = parse_mentions("@memos/list @nobody @Broken/x @mail/nothing")
    found = list_unmet(ALL, mentions, excused=["broken"])
    assert found == [Mention("nobody"), Mention("mail", "nothing")]


@pytest.mark.parametrize(
    ("text", "are_tools_off", "is_empty", "beginning"),
    [
        ("hello", True, True, ""),
        ("@memos", False, False, ""),
        ("@memos", True, True, "Tools are switched off for this chat, so this was not used: @m"),
        ("@no", False, True, "You have no such service or tool: @no. No tools were"),
        ("@no @mail", False, False, "You have no such service or tool: @no. Only the other"),
        ("@a @b @c @d @e @f @g", False, True, "You have no such service or tool: @a, @b, @c, @d, "
         "@e and 2 more names. No"),
    ],
)  # fmt: skip
def test_a_mention_that_is_of_no_use_is_said(
    text: str, are_tools_off: bool, is_empty: bool, beginning: str
) -> None:
    selection = Selection(mentions=parse_mentions(text), are_tools_off=are_tools_off)
    sentence, hint = build_notice(selection, list_unmet(ALL, selection.mentions), is_empty)
    assert sentence.startswith(beginning)
    assert bool(sentence) is bool(hint) is bool(beginning)


NAMES = st.text("ab_-", min_size=1, max_size=4)
TOOLS = st.dictionaries(
    st.text(max_size=3),
    st.builds(Tool, NAMES, st.text(min_size=1, max_size=6), st.sampled_from(["core", "service"])),
)
PLACES = st.dictionaries(st.tuples(NAMES, st.text(max_size=2)), st.booleans())


@given(TOOLS, st.text("@ab_-/ `\n"), PLACES, PLACES, st.booleans())
def test_what_an_admin_does_not_allow_never_comes_in(
    tools: dict[str, Tool],
    text: str,
    here: dict[tuple[str, str], bool],
    everywhere: dict[tuple[str, str], bool],
    is_off: bool,
) -> None:
    """Whatever a person writes or switches, filters only leave out."""
    switches = Switches(here=here, everywhere=everywhere)
    chosen = Selection(mentions=parse_mentions(text), switches=switches, are_tools_off=is_off)
    assert select(tools, chosen).items() <= tools.items()


@given(NAMES, st.text(min_size=1))
def test_what_is_offered_as_a_mention_is_found_again(service: str, tool: str) -> None:
    tools = {"it": Tool(service, tool)}
    for mention in (build_mention(service), build_mention(service, tool)):
        assert parse_mentions(f"Use {mention}, please.") == (mention,)
        assert parse_mentions(f"{mention}") == (mention,)
        assert filter_by_mentions(tools, [mention]) == tools


@given(st.text("@ab_-/. `~\n\\é", max_size=400))
def test_any_text_is_read(text: str) -> None:
    for mention in parse_mentions(text):
        assert str(mention) in text
