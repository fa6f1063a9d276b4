"""The pages that an answer cites, as far as their addresses are safe links."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from chatapp.providers.events import SourceCited
from mcpconfig.values.results import make_storable

MAX_SOURCES = 20
MAX_URL = 2_000
MAX_TITLE = 200


@dataclass(slots=True, kw_only=True)
class CitedSources:
    """The sources of one answer: each address once, the first ones if there are too many."""

    by_url: dict[str, str] = field(default_factory=dict)

    def add(self, cited: SourceCited) -> None:
        url = cited.url.strip()
        title = " ".join(make_storable(cited.title).split())[:MAX_TITLE]
        if url in self.by_url:
            self.by_url[url] = self.by_url[url] or title
        elif len(self.by_url) < MAX_SOURCES and is_safe_link(url):
            self.by_url[url] = title

    def to_json(self) -> list[dict[str, str]]:
        return [{"url": url, "title": title} for url, title in self.by_url.items()]


def is_safe_link(url: str) -> bool:
    """Whether this is a web address without a password, hidden characters or spaces."""
    if len(url) > MAX_URL or not url.isprintable() or any(c.isspace() or c == "\\" for c in url):
        return False
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
        )
    except ValueError:
        return False
