"""What hostile Markdown may become: text, and links that say where they lead."""

import re

import pytest

from chatapp.rendering.markdown.sanitiser import sanitise
from chatapp.rendering.markdown.stream import MarkdownStream, render_markdown
from tests.chatapp.rendering.inspection import Inspection
from tests.chatapp.rendering.payloads import PAYLOADS

# One case checks every twentieth payload. A failure names the payload.
GROUPS = 20
groups = pytest.mark.parametrize("payloads", [PAYLOADS[start::GROUPS] for start in range(GROUPS)])


def test_the_corpus_is_large_and_has_no_doubles() -> None:
    assert len(PAYLOADS) >= 200
    assert len(set(PAYLOADS)) == len(PAYLOADS)


@groups
def test_a_payload_becomes_only_what_is_allowed(payloads: list[str]) -> None:
    for payload in payloads:
        assert Inspection(render_markdown(payload)).violations == [], payload


@groups
def test_a_payload_is_as_harmless_while_it_streams(payloads: list[str]) -> None:
    for payload in payloads:
        stream = MarkdownStream()
        for start in range(0, len(payload), 7):
            stream.feed(payload[start : start + 7])
            stream.frame()
            assert Inspection("".join(stream.snapshot())).violations == [], payload


@groups
def test_the_sanitiser_alone_stops_a_payload_that_is_markup(payloads: list[str]) -> None:
    for payload in payloads:
        assert Inspection(sanitise(payload)).violations == [], payload


@groups
def test_no_output_holds_what_htmx_rewrites_before_parsing(payloads: list[str]) -> None:
    """htmx 4 finds its own tags with a regular expression, inside attribute values too."""
    for payload in payloads:
        html = render_markdown(payload)
        assert not re.search(r"<hx-", html, re.IGNORECASE), payload
        assert not re.search(r"<[^>]* (data-)?hx-", html, re.IGNORECASE), payload


def test_html_in_markdown_is_shown_as_it_was_written() -> None:
    """The first wall: markup is text before the sanitiser sees it, so nothing is lost silently."""
    shown = Inspection(render_markdown("see <b>this</b> and <img src=x>"))
    assert shown.text.strip() == "see <b>this</b> and <img src=x>"
    assert shown.tags == ["p"]


def test_the_inspection_sees_what_it_is_there_for() -> None:
    html = '<p id="a" onclick="b"><svg></svg><a href="javascript:1" class="x">y</a><!-- z --></p>'
    assert len(Inspection(html).violations) == 6


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:image/png;base64,AAAA",
        "/admin/",
        "//evil.example",
        "#thread",
        "https:evil.example",
        "https://bank.example@evil.example/",
        "mailto:nobody",
    ],
)
def test_an_address_that_is_not_whole_and_plain_is_no_link(address: str) -> None:
    shown = Inspection(render_markdown(f"[words]({address})"))
    assert shown.links == []
    assert address in shown.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://xn--80ak6aa92e.com/login", "https://xn--80ak6aa92e.com/login"),
        ("https://а.example/", None),
        ("https://a.example/%E2%80%AEfdp.exe", "https://a.example/%E2%80%AEfdp.exe"),
        ("https://a.example/\u202efdp.exe", "https://a.example/"),
        ("https://bank.example@evil.example/", None),
        ("https://bank.example:pass@evil.example/", None),
    ],
)
def test_an_address_in_text_is_linked_as_it_is_written(text: str, shown: str | None) -> None:
    inspected = Inspection(render_markdown(text))
    assert inspected.text.strip() == text
    assert [link["href"] for link in inspected.links] == [shown] * (shown is not None)


def test_a_link_says_where_it_leads_and_tells_that_place_nothing() -> None:
    [link] = Inspection(render_markdown('[my bank](https://evil.example/a "my bank")')).links
    assert link["title"] == link["href"] == "https://evil.example/a"
    assert link["target"] == "_blank"
    assert set(link["rel"].split()) == {"noopener", "noreferrer", "nofollow"}


def test_an_image_is_never_loaded_but_named() -> None:
    shown = Inspection(
        render_markdown("![quarterly *chart*](https://img.example:8443/q.png?secret=1)")
    )
    assert "img" not in shown.tags
    assert shown.text.strip() == "Image from img.example: quarterly chart"
    assert shown.links[0]["href"] == "https://img.example:8443/q.png?secret=1"


def test_an_image_inside_a_link_leaves_one_link() -> None:
    shown = Inspection(
        render_markdown("[before ![i](https://i.example/x) after](https://o.example)")
    )
    assert [link["href"] for link in shown.links] == ["https://o.example"]
    assert shown.text.strip() == "before Image from i.example: i after"


@pytest.mark.parametrize(
    "html",
    [
        '<p style="color: red">x</p>',
        '<p id="thread">x</p>',
        '<p class="approval">x</p>',
        '<figure class="table approval">x</figure>',
        '<div class="controls">x</div>',
        '<div role="alert">x</div>',
        '<p data-state="done">x</p>',
        '<p hx-get="/">x</p>',
        '<pre tabindex="5">x</pre>',
        '<a href="/admin/">x</a>',
        '<a href="ftp://e.example">x</a>',
        '<math><mi href="https://e.example">x</mi></math>',
        '<math><semantics><annotation-xml encoding="text/html"><b>x</b></annotation-xml></math>',
        "<p><!-- x --></p>",
    ],
)
def test_the_sanitiser_removes_each_kind_of_thing_that_is_not_listed(html: str) -> None:
    assert Inspection(html).violations
    assert Inspection(sanitise(html)).violations == []


def test_characters_that_no_page_can_hold_are_replaced() -> None:
    assert render_markdown("a\x00b\ud800c") == "<p>a\ufffdb\ufffdc</p>\n"
