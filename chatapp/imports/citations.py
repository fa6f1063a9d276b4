"""Citations: marks in the texts of other programs become links, and sources a list of links."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .fields import read_list, read_object, read_objects, read_text

Source = tuple[str, str]  # title and address
TITLE_CHARACTERS = 200
# ChatGPT writes marks in private characters, such as `cite`, `turn0search1` between three of them.
# Older ones are in brackets of their own.
_MARK = re.compile("\ue200([^\ue200\ue201]*)\ue201|[\ue200-\ue206]|【[^【】]{1,300}】")
_PART_OF_MARK = "\ue202"
# LibreChat has the same characters, some as escapes, each before what it is about.
_LIBRECHAT_MARK = re.compile(r"(?:\\ue20[0-6]|[\ue200-\ue206])(?:turn\d+[a-z]+\d+)?")
_ADDRESS = re.compile(r"https?://[^\s<>]+", re.IGNORECASE)


def write_link(title: str, address: str) -> str:
    """Return Markdown: a link, or the title alone where the address is none of the web."""
    plain = re.sub(r"([\\\[\]<>*_`])", r"\\\1", " ".join(title[:TITLE_CHARACTERS].split()))
    if not _ADDRESS.fullmatch(address):
        return plain
    return f"[{plain}](<{address}>)" if plain else f"<{address}>"


def write_sources(sources: Iterable[Source]) -> str:
    """Return a list in Markdown, each source once."""
    links = (write_link(*each) for each in sources)
    return "\n".join(f"- {each}" for each in dict.fromkeys(filter(None, links)))


def resolve_marks(text: str, about: Mapping[str, Any]) -> str:
    """Return a text of ChatGPT with links instead of the marks that its `metadata` explains, and
    without the other ones."""
    if not _MARK.search(text):
        return text
    references = read_objects(about.get("content_references"))
    known = {read_text(each.get("matched_text")).strip(): each for each in references}
    old: dict[str, str] = {}
    for each in read_objects(about.get("citations")):
        start, end, source = each.get("start_ix"), each.get("end_ix"), each.get("metadata")
        if isinstance(start, int) and isinstance(end, int) and read_object(source).get("url"):
            old[text[start:end].strip()] = f" ({_write_item(read_object(source))})"

    def resolve(mark: re.Match[str]) -> str:
        if reference := known.get(mark[0]):
            return _write_reference(reference)
        if mark[0].startswith("【"):
            return old.get(mark[0], mark[0])
        return _write_unexplained(mark[1] or "")

    return _MARK.sub(resolve, text)


def _write_reference(reference: dict[str, Any]) -> str:
    if written := read_text(reference.get("alt")):
        return written
    items = [reference, *read_objects(reference.get("items") or reference.get("sources"))]
    links = dict.fromkeys(_write_item(each) for each in items if read_text(each.get("url")))
    return f"({', '.join(links)})" if links else ""


def _write_item(item: dict[str, Any]) -> str:
    title = read_text(item.get("title")) or read_text(item.get("attribution"))
    return write_link(title, read_text(item.get("url")))


def _write_unexplained(mark: str) -> str:
    """Return the name in the mark of a thing, and the link in that of an address."""
    kind, *parts = mark.split(_PART_OF_MARK)
    if kind == "entity" and parts:
        try:
            names = read_list(json.loads(parts[0]))
        except (ValueError, RecursionError):
            names = []
        return read_text(names[1]) if len(names) > 1 else ""
    if kind == "url" and len(parts) > 1:
        return write_link(parts[0], parts[1])
    return ""


def remove_marks(text: str) -> str:
    """Return a text of LibreChat without the marks of its citations, which have no addresses."""
    return _LIBRECHAT_MARK.sub("", text)
