"""The sanitiser behind the Markdown parser: the explicit lists of what may reach a page.

Everything that is not on the lists is removed, even if the parser lets it through.
"""

import re
from typing import Final

import nh3

COLOUR_CLASSES: Final = frozenset({"k", "s", "c", "m", "nf", "gi", "gd"})
ALIGNMENT_CLASSES: Final = frozenset({"left", "center", "right"})

_PROSE: Final = (
    "p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br em strong s sup a code pre span "
    "div figure header table thead tbody tr th td"
)
_MATHML: Final = (
    "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover "
    "munderover mmultiscripts mprescripts mtable mtr mtd mstyle mpadded mphantom merror"
)
ALLOWED_TAGS: Final = frozenset(f"{_PROSE} {_MATHML}".split())

# No id and no name: a message could pose as the element that a live frame addresses. No style, no
# data- and no hx- attributes: they would let text act as markup. `tabindex` only as 0 on code and
# tables, so that they can be scrolled by keyboard.
ALLOWED_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "a": {"href", "title"},
    "div": {"aria-label"},
    "ol": {"start"},
    "math": {"display"},
    "mo": {"lspace", "rspace", "stretchy", "symmetric", "largeop", "movablelimits", "fence"}
    | {"separator", "form", "minsize", "maxsize"},
    "mi": {"mathvariant"},
    "mspace": {"width", "height", "depth"},
    "mpadded": {"width", "height", "depth", "lspace", "voffset"},
    "mfrac": {"linethickness"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle", "scriptlevel"},
    "mtd": {"columnspan", "rowspan"},
    "mover": {"accent"},
    "munder": {"accentunder"},
    "munderover": {"accent", "accentunder"},
}

ALLOWED_CLASSES: Final[dict[str, set[str]]] = {
    "figure": {"code", "table"},
    "p": {"footnote"},
    "sup": {"fn", "fn-first", "fn-text", "fn-back"},
    "li": {"task"},
    "span": {*COLOUR_CLASSES, "image", "box"},
    "a": {"image"},
    "th": set(ALIGNMENT_CLASSES),
    "td": set(ALIGNMENT_CLASSES),
    "mtd": {"left", "right"},
}

# A passage of a project's file. No other address of this server is a link in an answer.
_CITATION: Final = re.compile(r"/projects/[0-9a-f-]{36}/files/[0-9a-f-]{36}/#c[0-9]{1,7}")


def is_citation(url: str) -> bool:
    return _CITATION.fullmatch(url) is not None


def _keep_citation(url: str) -> str | None:
    """Return a relative URL that may stay, or None."""
    return url if is_citation(url) else None


_CLEANER: Final = nh3.Cleaner(
    tags=set(ALLOWED_TAGS),
    attributes=ALLOWED_ATTRIBUTES,
    allowed_classes=ALLOWED_CLASSES,
    tag_attribute_values={
        "pre": {"tabindex": {"0"}},
        "div": {"tabindex": {"0"}, "role": {"group"}},
        **{tag: {"dir": {"auto"}} for tag in ("ul", "ol", "blockquote")},
    },
    set_tag_attribute_values={"a": {"target": "_blank"}},
    generic_attribute_prefixes=set(),
    url_schemes={"http", "https", "mailto"},
    url_relative=_keep_citation,
    link_rel="noopener noreferrer nofollow",
)


def sanitise(html: str) -> str:
    """Return the HTML without anything that is not on the lists above."""
    return _CLEANER.clean(html)
