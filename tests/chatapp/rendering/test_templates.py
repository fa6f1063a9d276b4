"""What the sources of the templates must keep."""

from pathlib import Path

from bs4 import BeautifulSoup, Tag

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
INLINE = {"a", "b", "bdi", "code", "em", "i", "strong"}


def find_split_notices(html: str) -> list[str]:
    """A notice lays its children out in a row, so an element inside its sentence splits it."""
    notices = BeautifulSoup(html, "html.parser").select(".notice")
    return [
        str(notice)
        for notice in notices
        if any(isinstance(child, Tag) and child.name in INLINE for child in notice.children)
    ]


def test_the_sentence_of_a_notice_is_in_one_element() -> None:
    sources = [path.read_text() for path in sorted(TEMPLATES.rglob("*.html"))]
    assert sum("notice" in source for source in sources) > 10
    assert [notice for source in sources for notice in find_split_notices(source)] == []


def test_a_split_notice_is_found() -> None:
    assert find_split_notices('<p class="notice error">Signed in as <bdi>Ann</bdi>.</p>')
    assert not find_split_notices('<p class="notice"><span>As <bdi>Ann</bdi>.</span></p>')
