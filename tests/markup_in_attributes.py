"""Finds markup inside of attribute values: text that was drawn as HTML before it was put there."""

from html.parser import HTMLParser

# Text of others: it would end an attribute, open an element, and holds characters that pages draw
# as elements of their own.
HOSTILE = "Tidy\u202e up\u200b \"quoted\" 'single' <b title=x>bold</b>"


class _StartTags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Text is escaped, so a start tag holds no second "<" as it was written.
        text = self.get_starttag_text() or ""
        at = text.find("<", 1)
        if at > 0:
            self.found.append(f"{tag}: …{text[max(1, at - 60) : at + 40]}…")


def find_markup_in_attributes(html: str) -> list[str]:
    """Return the beginning of the markup in attribute values, once for each start tag."""
    parser = _StartTags()
    parser.feed(html)
    parser.close()
    return parser.found
