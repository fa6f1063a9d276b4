"""What Markdown becomes: our own frames around tables, code and images."""

import pytest

from chatapp.rendering.markdown.stream import _Cache, render_markdown
from tests.chatapp.rendering.inspection import Inspection


def test_a_table_can_scroll_and_aligns_by_class() -> None:
    html = render_markdown("| a | b | c | d |\n|:--|:-:|--:|---|\n| 1 | 2 | 3 | 4 |\n")
    assert html.startswith('<div class="table"><table>')
    assert html.endswith("</table></div>\n")
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
        ("3. a\n4. b", '<ol start="3">\n<li>a</li>\n<li>b</li>\n</ol>\n'),
        ("a  \nb", "<p>a<br>\nb</p>\n"),
        ("a\r\nb\rc", "<p>a\nb\nc</p>\n"),
        ("", ""),
        ("\n \n", ""),
        (r"\*a\* &copy; &lt;", "<p>*a* © &lt;</p>\n"),
    ],
)
def test_the_usual_markdown(source: str, html: str) -> None:
    assert render_markdown(source) == html


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
