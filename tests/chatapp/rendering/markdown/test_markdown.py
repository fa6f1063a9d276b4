"""What Markdown becomes: our own frames around tables, code and images."""

import pytest

from chatapp.rendering.markdown.stream import _Cache, render_markdown
from tests.chatapp.rendering.inspection import Inspection
from tests.dom_tree import parse


def test_a_table_can_scroll_and_aligns_by_class() -> None:
    html = render_markdown("| a | b | c | d |\n|:--|:-:|--:|---|\n| 1 | 2 | 3 | 4 |\n")
    frame = parse(html).one("figure")
    assert frame["class"] == "table"
    assert frame.one("header").text == "1 row"
    assert frame.one("div", role="group", tabindex="0")["aria-label"] == "Table"
    assert html.endswith("</table></div></figure>\n")
    for cell in ('<th class="left">a', '<td class="center">2', '<td class="right">3', "<td>4"):
        assert cell in html


def test_code_stands_in_a_figure_that_names_its_language() -> None:
    html = render_markdown("```python title=x\n1 < 2\n```")
    assert html.startswith('<figure class="code"><header>python</header><pre tabindex="0"><code>')
    assert html.endswith("</code></pre></figure>\n")
    assert Inspection(html).text == "python1 < 2\n\n"


@pytest.mark.parametrize("source", ["```\nx\n```", "    x"])
def test_code_without_a_language_is_called_text(source: str) -> None:
    assert "<header>text</header>" in render_markdown(source)


def test_the_name_of_a_language_is_short() -> None:
    assert f"<header>{'x' * 30}</header>" in render_markdown(f"```{'x' * 500}\n```")


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("~~gone~~", "<p><s>gone</s></p>\n"),
        ("*a* **b** `c`", "<p><em>a</em> <strong>b</strong> <code>c</code></p>\n"),
        ("3. a\n4. b", '<ol start="3" dir="auto">\n<li>a</li>\n<li>b</li>\n</ol>\n'),
        ("a  \nb", "<p>a<br>\nb</p>\n"),
        ("a\r\nb\rc", "<p>a\nb\nc</p>\n"),
        ("", ""),
        ("\n \n", ""),
        (r"\*a\* &copy; &lt;", "<p>*a* © &lt;</p>\n"),
    ],
)
def test_the_usual_markdown(source: str, html: str) -> None:
    assert render_markdown(source) == html


@pytest.mark.parametrize(
    ("source", "addresses"),
    [
        (
            "See https://a.example/b?c=d, or (http://e.example/f).",
            ["https://a.example/b?c=d", "http://e.example/f"],
        ),
        ("https://a.example/Wiki_(page)", ["https://a.example/Wiki_(page)"]),
        ("Mail to me@example.org, or clone git@host.example:a/b.git.", []),
        ("*https://a.example/b_c_d*", ["https://a.example/b_c_d"]),
        ("xhttps://a.example, https://a.example_b, https://a.example|b", ["https://a.example"]),
        ("https://a.example:8080/ä?b=ö#ü", ["https://a.example:8080/%C3%A4?b=%C3%B6#%C3%BC"]),
        (
            "- https://a.example\n- **https://b.example**",
            ["https://a.example", "https://b.example"],
        ),
        ("[https://a.example](https://b.example)", ["https://b.example"]),
        ("<https://a.example>", ["https://a.example"]),
        ("`https://a.example`", []),
        ("run.sh and www.a.example and 10.0.0.1", []),
        ("ftp://a.example //a.example file:///etc", []),
        ("https://me@a.example/ and https://a:b@c.example", []),
        (r"https\://a.example", []),
        ("![https://a.example](https://b.example/c.png)", ["https://b.example/c.png"]),
    ],
)
def test_whole_addresses_in_text_are_links(source: str, addresses: list[str]) -> None:
    found = [link["href"] for link in Inspection(render_markdown(source)).links]
    assert found == addresses


BOX = '<li class="task"><span class="box">'


@pytest.mark.parametrize(
    ("source", "html"),
    [
        (
            "- [ ] a\n- [x] *b*\n- [X] c\n- d",
            f'<ul dir="auto">\n{BOX}☐</span>a</li>\n{BOX}☑</span><em>b</em></li>\n'
            f"{BOX}☑</span>c</li>\n<li>d</li>\n</ul>\n",
        ),
        (
            "1. [ ] a\n\n   b",
            '<ol dir="auto">\n<li class="task">\n<p><span class="box">☐</span>a</p>\n<p>b</p>\n'
            "</li>\n</ol>\n",
        ),
        (
            "- [ ]\n- []  a\n- [y] b",
            '<ul dir="auto">\n<li>[ ]</li>\n<li>[]  a</li>\n<li>[y] b</li>\n</ul>\n',
        ),
        ("[x] a", "<p>[x] a</p>\n"),
    ],
    ids=["list", "loose list", "no boxes", "no list"],
)
def test_items_of_a_task_list_have_boxes(source: str, html: str) -> None:
    assert render_markdown(source) == html


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("A.[^1] B[^12], c.", "<p>A.<sup>1</sup> B<sup>12</sup>, c.</p>\n"),
        (
            "[^1]: One *a*\nb\n[^2]: Two\n\nEnd",
            '<p class="footnote"><sup class="fn-text">1</sup> One <em>a</em>\nb</p>\n'
            '<p class="footnote"><sup class="fn-text">2</sup> Two</p>\n<p>End</p>\n',
        ),
        ("Use [^a-z], [^] and `[^1]`.", "<p>Use [^a-z], [^] and <code>[^1]</code>.</p>\n"),
        ("\\[^1]", "<p>[^1]</p>\n"),
    ],
    ids=["marks", "texts", "regular expressions", "escaped"],
)
def test_footnotes_have_numbers(source: str, html: str) -> None:
    assert render_markdown(source) == html


def test_a_footnote_in_a_quotation_loses_nothing_and_no_definition_after_one_is_lost() -> None:
    assert "https://e.example" in Inspection(render_markdown("> [^1]: https://e.example")).text
    shown = Inspection(render_markdown("[d]\n\n[^1]: A\n\n[d]: https://e.example"))
    assert [link["href"] for link in shown.links] == ["https://e.example"]


def test_a_footnote_that_is_an_address_is_no_definition_of_a_link() -> None:
    shown = Inspection(render_markdown("A.[^1]\n\n[^1]: https://e.example"))
    assert shown.tags == ["p", "sup", "p", "sup", "a"]


def test_a_definition_may_stand_before_or_after_its_use() -> None:
    for source in ("[x]\n\n[x]: https://e.example", "[x]: https://e.example\n\n[x]"):
        assert [link["href"] for link in Inspection(render_markdown(source)).links] == [
            "https://e.example"
        ]


def test_a_definition_without_an_end_of_its_title_loses_no_text() -> None:
    assert "never closed" in render_markdown('[x]: https://e.example\n"never closed\n\nmore')


def test_the_cache_forgets_the_oldest_when_it_is_full() -> None:
    cache = _Cache(max_chars=25)
    cache.put(("en", "a"), "x" * 9)
    cache.put(("en", "b"), "y" * 9)
    assert cache.get(("en", "a")) == "x" * 9
    cache.put(("en", "c"), "z" * 9)
    assert cache.get(("en", "b")) is None
    assert cache.get(("en", "a")) == "x" * 9
    cache.put(("en", "d"), "w" * 40)
    assert cache.get(("en", "d")) is None


def test_a_page_of_old_messages_is_rendered_once() -> None:
    text = "old message\n" * 3
    assert render_markdown(text) is render_markdown("".join(text))
