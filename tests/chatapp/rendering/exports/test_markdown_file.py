"""The Markdown of a chat: untrusted text stays in its block, whatever it has in it."""

import uuid
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from chatapp.rendering.exports.markdown_file import (
    close_open_block,
    fence,
    quote_code,
    write_markdown,
)
from chatapp.rendering.exports.values import (
    CallPart,
    CallValues,
    ExportedChat,
    ExportedMessage,
    ExportedPart,
    FilePart,
    NoticePart,
    Piece,
    ReasoningPart,
    SourcesPart,
    TextPart,
    ToolDetail,
)
from chatapp.rendering.hidden_characters import write_hidden

NOW = timezone.now()
MARK = "ESCAPED"
# What could end a block, and then be a heading, a link or HTML.
HOSTILE = (
    f"```\n# {MARK}",
    f"``````\n\n# {MARK}\n\n``````",
    f"~~~\n# {MARK}",
    f"</details>\n-->\n# {MARK}",
    f"`x`\n\n[{MARK}](https://evil.example)",
    f"a\r```\r# {MARK}",
    f"a\u2028```\u2028# {MARK}",
    f"\x00```\n# {MARK}",
)
PIECES = st.lists(st.sampled_from(["`", "~", "\n", "\r", " ", ">", "-", "<!--", "x", "# ", "\t"]))
HOSTILE_TEXTS = PIECES.map("".join)


def parse(document: str) -> list[Token]:
    return MarkdownIt("commonmark").parse(document)


def list_headings(document: str) -> list[str]:
    tokens = parse(document)
    return [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]


def list_fences(document: str) -> list[str]:
    return [token.content for token in parse(document) if token.type == "fence"]


def list_links(document: str) -> list[str]:
    children = [child for token in parse(document) for child in token.children or ()]
    return [str(child.attrs["href"]) for child in children if child.type == "link_open"]


def write(*parts: ExportedPart, title: str = "Plants", **values: Any) -> str:
    message = ExportedMessage(
        id=uuid.uuid4(),
        parent=None,
        is_shown=True,
        role="user",
        created_at=NOW,
        is_of_program=False,
        instructions=values.pop("instructions", ""),
        turn=None,
        parts=parts,
    )
    chat = ExportedChat(
        id=uuid.uuid4(),
        title=title,
        owner=values.pop("owner", "Ada"),
        address="https://chat.example",
        created_at=NOW,
        active_at=NOW,
        exported_at=NOW,
        detail=ToolDetail.FULL,
        messages=iter([message]),
    )
    return write_markdown(chat)


def call(text: str = "", **values: Any) -> CallPart:
    pieces = (
        Piece(kind="text", label=text, text=text),
        Piece(kind="image", label="Image", about=text, path="/calls/1/content/0"),
    )
    return CallPart(
        **{
            "id": "1",
            "tool_id": text or "notebook_read",
            "title": text or "Read",
            "service": text or "Notebook",
            "state": "succeeded",
            "approval": None,
            "policy_reason": "",
            "review": None,
            "resolution": "",
            "sent_at": NOW,
            "finished_at": NOW,
            "lines": (text,) if text else ("done",),
            "values": CallValues(arguments=text, pieces=pieces, error=text),
            **values,
        }
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_a_tool_leaves_its_block(text: str) -> None:
    written = write(call(text), TextPart(text="The end."))
    headings = list_headings(written)
    assert len(headings) == 2 and MARK not in "".join(headings)
    assert list_links(written) == ["https://chat.example/calls/1/content/0"]
    assert list_fences(written) == [f"{write_hidden(text)}\n"] * 3
    assert not [token for token in parse(written) if token.type == "html_block"]


@pytest.mark.parametrize("text", HOSTILE)
def test_neither_do_reasoning_instructions_summaries_and_names(text: str) -> None:
    written = write(
        ReasoningPart(text=text, seconds=2),
        NoticePart(kind="summary", text=text, hint=text, summary=text),
        FilePart(
            name=text, origin="PDF", media_type="", size=1, path="/attachments/1/", description=text
        ),
        SourcesPart(sources=((f"https://a.example/{text}", text),)),
        title=text,
        owner=text,
        instructions=text,
    )
    assert len(list_headings(written)) == 2
    assert list_fences(written) == [f"{write_hidden(text)}\n"] * 3
    assert len(list_links(written)) == 2
    assert not [token for token in parse(written) if token.type == "html_block"]


@given(HOSTILE_TEXTS)
def test_a_fence_ends_only_where_it_was_closed(text: str) -> None:
    [found, after, *_rest] = parse(f"{fence(text)}\n\nAfter.")
    assert (found.type, after.type) == ("fence", "paragraph_open")


@given(HOSTILE_TEXTS)
def test_a_code_span_is_the_whole_line(text: str) -> None:
    drawn = quote_code(text)
    [_opening, inline, _closing] = parse(f"Name {drawn} end")
    kinds = [child.type for child in inline.children or ()]
    assert kinds == (["text", "code_inline", "text"] if drawn else ["text"])


@given(HOSTILE_TEXTS, HOSTILE_TEXTS)
def test_what_a_text_leaves_open_swallows_nothing(text: str, result: str) -> None:
    written = write(TextPart(text=text), call(result), TextPart(text="The end."))
    assert parse(written)[-2].content == "The end."
    assert list_fences(written)[-3:] == [f"{write_hidden(result)}\n"] * 3 if result else True


def test_an_open_code_block_is_closed_and_the_rest_stays_as_written() -> None:
    assert close_open_block("Here:\n\n````py\nx = 1") == "Here:\n\n````py\nx = 1\n````"
    assert close_open_block("1. a\n\n   ```\n   x") == "1. a\n\n   ```\n   x"
    assert close_open_block("<!-- open") == "```markdown\n<!-- open\n```"
    assert close_open_block("**Bold**, `code` and <b>") == "**Bold**, `code` and <b>"


def test_an_address_in_a_name_becomes_no_link() -> None:
    """Some programs link addresses in plain text, but not those in code or with a backslash."""
    written = write(
        call(title="See https://evil.example", lines=("at https://b.example, www.c.example",)),
        title="https://a.example",
    )
    assert "`See https://evil.example`" in written
    assert "# https\\://a.example" in written
    assert "- at https\\://b.example, www\\.c.example" in written
