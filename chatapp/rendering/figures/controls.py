"""The controls in the headers of code blocks and tables of an answer.

They are added after the sanitiser, which allows no link into this application and no button. Their
addresses have the number of the code block or table in its text part, so closed blocks of a stream
get the same controls as the whole part.
"""

import re
import uuid
from functools import lru_cache
from itertools import count
from typing import Final

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import get_language

from chatapp.rendering import page_values
from chatapp.rendering.markdown.stream import count_figures

from .code_page import find_preview_kind
from .footnote_links import link_footnotes

# Longer code is folded.
SHOWN_LINES: Final = 40
# Only the renderer writes this: the text of a message is escaped.
_FIGURE: Final = re.compile(
    r'(?P<start><figure class="(?P<kind>code|table)"><header>(?P<name>[^<]*))'
    r"(?P<rest></header>.*?</figure>)",
    re.DOTALL,
)
_PLACE: Final = "ADDRESS-OF-FIGURE"


def add_controls(html: str, place: tuple[uuid.UUID, int, int], first: int = 0) -> str:
    """Return rendered Markdown with controls and links between footnotes. `place` is the message,
    step and position of its text part, and `first` the number of its first figure."""
    html = link_footnotes(html, page_values.blocks_id(*place))
    if not count_figures(html):
        return html
    numbers = count(first)

    def insert(figure: re.Match[str]) -> str:
        address = reverse("answer-figure", args=[*place, next(numbers)])
        lines = figure["rest"].count("\n") if figure["kind"] == "code" else 0
        folded = lines if lines > SHOWN_LINES else 0
        preview = find_preview_kind(figure["name"]) if figure["kind"] == "code" else ""
        controls = _render_controls(figure["kind"], folded, preview, get_language())
        return figure["start"] + controls.replace(_PLACE, address) + figure["rest"]

    return _FIGURE.sub(insert, html)


@lru_cache(maxsize=256)
def _render_controls(kind: str, lines: int, preview: str, language: str | None) -> str:
    """A template for each code block would take longer than all the rest of it."""
    context = {"address": _PLACE, "lines": lines, "preview": preview}
    return render_to_string(f"chat/_{kind}_controls.html", context).strip()
