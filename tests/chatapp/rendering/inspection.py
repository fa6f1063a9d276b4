"""Reads HTML as a browser would begin to and names everything in it that must never be there."""

from html.parser import HTMLParser

_TAGS = """
    p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br em strong s sup a code pre span div figure header
    table thead tbody tr th td
    math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover
    mmultiscripts mprescripts mtable mtr mtd mstyle mpadded mphantom merror"""
TAGS = set(_TAGS.split())
_CLASSES = "code table image left center right k s c m nf gi gd task box footnote "
_CLASSES += "fn fn-first fn-text fn-back"
CLASSES = set(_CLASSES.split())
ATTRIBUTES = {
    "a": {"href", "title", "target", "rel", "class"},
    "ol": {"start", "dir"},
    **dict.fromkeys(["ul", "blockquote"], {"dir"}),
    "pre": {"tabindex"},
    "div": {"tabindex", "role", "aria-label"},
    **dict.fromkeys(["figure", "span", "th", "td", "mtd", "p", "li", "sup"], {"class"}),
}
_OF_FORMULAS = """
    display displaystyle scriptlevel accent accentunder mathvariant linethickness stretchy form
    symmetric largeop movablelimits fence separator lspace rspace minsize maxsize width height depth
    voffset columnspan rowspan"""
PRESENTATION_OF_FORMULAS = set(_OF_FORMULAS.split())


class Inspection(HTMLParser):
    """`violations` are sentences; `text` is what a person reads; `tags` what was opened."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.violations: list[str] = []
        self.tags: list[str] = []
        self.links: list[dict[str, str]] = []
        self._texts: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in TAGS:
            self.violations.append(f"element {tag}")
        for name, value in attrs:
            self._check_attribute(tag, name, value or "")
        if tag == "a":
            self.links.append({name: value or "" for name, value in attrs})

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.violations.append(f"comment {data!r}")

    def handle_decl(self, decl: str) -> None:
        self.violations.append(f"declaration {decl!r}")

    def handle_pi(self, data: str) -> None:
        self.violations.append(f"instruction {data!r}")

    def _check_attribute(self, tag: str, name: str, value: str) -> None:
        is_formula = tag.startswith("m") and name in PRESENTATION_OF_FORMULAS
        if name not in ATTRIBUTES.get(tag, set()) and not is_formula:
            self.violations.append(f"attribute {name} of {tag}")
        if name == "class" and not set(value.split()) <= CLASSES:
            self.violations.append(f"class {value!r}")
        if name == "href" and not value.startswith(("https://", "http://", "mailto:")):
            self.violations.append(f"address {value!r}")
        if name == "role" and value != "group":
            self.violations.append(f"role {value!r}")
        if name == "aria-label" and value != "Table":
            self.violations.append(f"label {value!r}")
        if name == "dir" and value != "auto":
            self.violations.append(f"direction {value!r}")
        if name == "tabindex" and value != "0":
            self.violations.append(f"tabindex {value}")
        if "<hx-" in value or " hx-" in value:
            self.violations.append(f"htmx in {name}")
