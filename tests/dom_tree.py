"""HTML as a small tree, so that tests select elements instead of comparing text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Self

VOID = {"br", "col", "hr", "img", "input", "link", "meta", "wbr"}


@dataclass(eq=False, slots=True)
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)
    parent: "Element | None" = None

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    @property
    def text(self) -> str:
        """The words inside, with single spaces."""
        return " ".join("".join(self._words()).split())

    def _words(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._words()

    def _spoken(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.attributes.get("aria-hidden") != "true":
                yield from child._spoken()

    @property
    def elements(self) -> list["Element"]:
        return [child for child in self.children if isinstance(child, Element)]

    def all(self, tag: str = "", **wanted: str) -> list["Element"]:
        """Every element inside with this tag and these attributes (`data_x` for `data-x`)."""
        found = []
        for child in self.elements:
            if child.fits(tag, wanted):
                found.append(child)
            found.extend(child.all(tag, **wanted))
        return found

    def one(self, tag: str = "", **wanted: str) -> "Element":
        found = self.all(tag, **wanted)
        assert len(found) == 1, f"{len(found)} elements {tag} {wanted}"
        return found[0]

    def fits(self, tag: str, wanted: dict[str, str]) -> bool:
        return (not tag or self.tag == tag) and all(
            self.attributes.get(name.rstrip("_").replace("_", "-")) == value
            for name, value in wanted.items()
        )

    def with_class(self, name: str) -> list["Element"]:
        return [each for each in self.all() if name in each.attributes.get("class", "").split()]

    def button(self, name: str) -> "Element":
        """The button of this accessible name."""
        found = [each for each in self.all("button") if name in (each.name, each.text)]
        assert len(found) == 1, f"{len(found)} buttons {name}"
        return found[0]

    def buttons(self) -> list[str]:
        """The names of the buttons that a person can find."""
        return [each.name for each in self.all("button") if "hidden" not in each]

    def choices(self) -> list[str]:
        """What the visible buttons send, in order, as `name=value`."""
        buttons = [each for each in self.all("button") if "hidden" not in each and "name" in each]
        return [f"{each['name']}={each['value']}" for each in buttons]

    @property
    def name(self) -> str:
        """What it is called: its label, or the words in it that are not hidden from a reader."""
        return self.attributes.get("aria-label") or " ".join("".join(self._spoken()).split())

    def fields(self) -> dict[str, str]:
        """What a form would send, without its buttons."""
        sent = {each["name"]: each.attributes.get("value", "") for each in self.all("input")}
        sent |= {each["name"]: "".join(each._words()) for each in self.all("textarea")}
        for select in self.all("select"):
            options = select.all("option")
            chosen = [each for each in options if "selected" in each] or options[:1]
            sent.update((select["name"], each["value"]) for each in chosen)
        return sent

    def ancestors(self) -> Iterator["Element"]:
        if self.parent is not None:
            yield self.parent
            yield from self.parent.ancestors()


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, [], self.open[-1])
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    @classmethod
    def built(cls, html: str) -> Self:
        builder = cls()
        builder.feed(html)
        builder.close()
        assert len(builder.open) == 1, f"<{builder.open[-1].tag}> is not closed"
        return builder


def parse(html: str) -> Element:
    """The whole tree; tags that are not closed in order fail."""
    return _Builder.built(html).root


def root_of(html: str) -> Element:
    """The one element of a fragment."""
    tree = parse(html)
    assert len(tree.elements) == 1, f"{len(tree.elements)} root elements"
    assert not any(child.strip() for child in tree.children if isinstance(child, str))
    return tree.elements[0]
