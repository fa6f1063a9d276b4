"""Links between the marks of footnotes and their texts.

They are added after the sanitiser, which allows no ids: those of one message must not be those of
another. The renderer alone writes the classes, as the text of a message is escaped.
"""

import re
from collections.abc import Callable
from typing import Final

from django.utils.html import escape
from django.utils.translation import gettext as _

_MARK: Final = re.compile(r'<sup class="fn(?P<first> fn-first)?">(?P<label>\d+)</sup>')
_TEXT: Final = re.compile(
    r'<p class="footnote"><sup class="fn-(?P<kind>text|back)">(?P<label>\d+)</sup>'
)


def link_footnotes(html: str, place: str) -> str:
    """Return rendered Markdown with links. `place` is an id that no other text of the page has."""
    if "<sup class=" not in html:
        return html
    return _TEXT.sub(_link_text(place), _MARK.sub(_link_mark(place), html))


def _link_mark(place: str) -> Callable[[re.Match[str]], str]:
    def link(mark: re.Match[str]) -> str:
        label = mark["label"]
        name = escape(_("Footnote %(number)s") % {"number": label})
        own_id = f' id="{place}-mark-{label}"' if mark["first"] else ""
        target = f"{place}-note-{label}"
        return f'<sup class="fn"{own_id}><a href="#{target}" aria-label="{name}">{label}</a></sup>'

    return link


def _link_text(place: str) -> Callable[[re.Match[str]], str]:
    def link(text: re.Match[str]) -> str:
        label, number = text["label"], text["label"]
        if text["kind"] == "back":
            name = escape(_("Back to the mark of footnote %(number)s") % {"number": label})
            number = f'<a href="#{place}-mark-{label}" aria-label="{name}">{label}</a>'
        start = f'<p class="footnote" id="{place}-note-{label}" tabindex="-1">'
        return f'{start}<sup class="fn">{number}</sup>'

    return link
