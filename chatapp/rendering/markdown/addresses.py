"""Links for whole web addresses in text, such as `https://a.example/page`.

Only an address with its scheme and a plain ASCII host is found: `example.sh` may be a file, and
letters of other scripts can imitate a host. The text of the link is the address as it was written.
The time is linear in the length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

# Letters and digits of all scripts may stand in a path; hidden characters are none of these.
_ADDRESS: Final = re.compile(
    r"(?<![\w@/])https?://(?![^\s/?#]*@)(?>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?)(?!\w)"
    r"(?:[/?#][\w\-./?%&=+#:;,@~!$'()*]*)?",
    re.IGNORECASE,
)
_SENTENCE_END: Final = ".,:;!?'*"


def link_addresses(parser: MarkdownIt, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a line with a link for each address in its text."""
    found: list[Token] = []
    depth = 0  # of links
    for token in tokens:
        depth += {"link_open": 1, "link_close": -1}.get(token.type, 0)
        if token.type == "text" and not depth and "://" in token.content:
            found += _split(parser, token)
        else:
            found.append(token)
    return found


def _split(parser: MarkdownIt, token: Token) -> Iterator[Token]:
    text, end = token.content, 0
    for match in _ADDRESS.finditer(text):
        address = _trim(match[0])
        target = parser.normalizeLink(address)
        if not parser.validateLink(target):
            continue
        yield _make_text(text[end : match.start()])
        yield Token("link_open", "a", 1, attrs={"href": target})
        yield _make_text(address)
        yield Token("link_close", "a", -1)
        end = match.start() + len(address)
    yield _make_text(text[end:])


def _trim(address: str) -> str:
    """Return the address without the punctuation of the sentence around it."""
    extra = address.count(")") - address.count("(")
    while address[-1] in _SENTENCE_END or (address[-1] == ")" and extra > 0):
        extra -= address[-1] == ")"
        address = address[:-1]
    return address


def _make_text(content: str) -> Token:
    return Token("text", "", 0, content=content)
