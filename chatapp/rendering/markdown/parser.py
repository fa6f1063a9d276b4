"""The Markdown parser as configured here, and the HTML of what it finds: ours, then cleaned."""

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore, text_join
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from chatapp.rendering.code_colours import colour
from chatapp.rendering.formulas import add_formulas, to_mathml
from chatapp.rendering.sanitiser import ALIGNMENT_CLASSES, clean

MAX_NESTING: Final = 100
MAX_BRACKET_DEPTH: Final = 20
MAX_REMEMBERED_CHARS: Final = 500
MAX_LANGUAGE_CHARS: Final = 30

# No user name before the host: `https://bank.example@evil.example` reads as the wrong place.
_BRACKET: Final = re.compile(r"[\[\]]")
_LINK: Final = re.compile(r"https?://[^\s/?#@\\]+(?:[/?#]|$)|mailto:[^\s@?]+@", re.IGNORECASE)


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Only whole addresses: a relative link would point into this application."""
        return _LINK.match(url) is not None


class _Renderer(RendererHTML):
    """The rules whose HTML is not the library's: code, tables, links, images, formulas."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        language = language_of(token.info)
        if token.meta.get("is_growing"):
            return code_figure(language, escape(token.content, quote=False))
        return code_figure(language, colour(token.content, language))

    def ready(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return tokens[idx].content

    def code_block(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return code_figure("", escape(tokens[idx].content, quote=False))

    def formula(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        mathml = to_mathml(token.content, is_display=token.meta["is_display"])
        return f"<p>{mathml}</p>\n" if token.block else mathml

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Never the image itself: loading it would tell its host what somebody reads, and when."""
        token = tokens[idx]
        address = str(token.attrs["src"])
        words = self.renderInlineAsText(token.children, options, env).strip()
        label = escape(f"Image from {_host(address)}" + (f": {words}" if words else ""))
        if token.meta.get("is_in_link"):
            return f'<span class="image">{label}</span>'
        return f'<a class="image"{_destination(address)}>{label}</a>'

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"<a{_destination(str(tokens[idx].attrs['href']))}>"

    def table_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return '<div class="table"><table>\n'

    def table_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _cell(tokens[idx])

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _cell(tokens[idx])


def make_parser() -> MarkdownIt:
    options = {"html": False, "xhtmlOut": False, "maxNesting": MAX_NESTING}
    parser = _Parser("commonmark", options)
    parser.enable(["table", "strikethrough"])
    add_formulas(parser)
    return parser


PARSER: Final = make_parser()
_RENDERER: Final = _Renderer()


def tokens_to_html(tokens: list[Token], env: EnvType) -> str:
    """Safe HTML of one block: inline text parsed, rules applied, the result cleaned."""
    for token in tokens:
        if token.type == "inline":
            token.children = [Token("ready", "", 0, content=_inline_html(token.content, env))]
    return clean(_RENDERER.render(tokens, PARSER.options, env))


def code_figure(language: str, code_html: str) -> str:
    """A code block. Our script adds a copy button to its header."""
    return (
        f'<figure class="code"><header>{escape(language or "text")}</header>'
        f'<pre tabindex="0"><code>{code_html}</code></pre></figure>\n'
    )


def language_of(info: str) -> str:
    """The first word after the opening of a fence."""
    words = info.split(maxsplit=1)
    return words[0][:MAX_LANGUAGE_CHARS] if words else ""


def _inline_html(content: str, env: EnvType) -> str:
    """Lines without brackets need no definitions, and an open list has the same ones each time."""
    if "[" not in content and len(content) <= MAX_REMEMBERED_CHARS:
        return _remembered_inline_html(content)
    if _bracket_depth(content) > MAX_BRACKET_DEPTH:
        return escape(content)
    return _render_inline(content, env)


@lru_cache(maxsize=4_096)
def _remembered_inline_html(content: str) -> str:
    return _render_inline(content, {})


def _render_inline(content: str, env: EnvType) -> str:
    line = Token("inline", "", 0, content=content)
    line.children = PARSER.inline.parse(content, PARSER, env, [])
    text_join(StateCore("", PARSER, env, [line]))
    _mark_linked_images(line.children)
    return _RENDERER.renderInline(line.children, PARSER.options, env)


def _bracket_depth(content: str) -> int:
    """The parser tries each open bracket against all that follow: seconds for some thousands."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(content):
        depth = max(depth + (1 if bracket == "[" else -1), 0)
        deepest = max(deepest, depth)
    return deepest


def _mark_linked_images(tokens: Sequence[Token]) -> None:
    """A link inside a link would tear the outer one apart."""
    depth = 0
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            depth += token.nesting
        elif token.type == "image":
            token.meta["is_in_link"] = depth > 0


def _destination(address: str) -> str:
    """The title is the whole destination, so that no link text can hide it."""
    return f' href="{escape(address)}" title="{escape(address)}"'


def _host(address: str) -> str:
    return urlsplit(address).hostname or "an address"


def _cell(token: Token) -> str:
    """The alignment as a class: the content policy drops style attributes."""
    alignment = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return (
        f'<{token.tag} class="{alignment}">' if alignment in ALIGNMENT_CLASSES else f"<{token.tag}>"
    )
