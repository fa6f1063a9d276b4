"""The configured Markdown parser, and the rendering of its tokens to sanitised HTML."""

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from itertools import takewhile
from typing import Final
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore, text_join
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from .addresses import link_addresses
from .code_colours import colour_code
from .formulas import add_formulas, render_mathml
from .sanitiser import ALIGNMENT_CLASSES, is_citation, sanitise
from .tasks_and_footnotes import (
    add_footnotes,
    get_footnotes,
    mark_tasks,
    render_sup,
    split_footnotes,
)

MAX_NESTING: Final = 100
MAX_BRACKET_DEPTH: Final = 20
MAX_REMEMBERED_CHARS: Final = 500
MAX_LANGUAGE_CHARS: Final = 30

# No user name before the host: `https://bank.example@evil.example` looks like another host.
_BRACKET: Final = re.compile(r"[\[\]]")
_LINK: Final = re.compile(r"https?://[^\s/?#@\\]+(?:[/?#]|$)|mailto:[^\s@?]+@", re.IGNORECASE)


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Allow only absolute URLs, because a relative link would point into this application, and
        citations of files. Opening a citation changes nothing."""
        return _LINK.match(url) is not None or is_citation(url)


class _Renderer(RendererHTML):
    """The rules that replace those of the library: code, tables, links, images and formulas."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        language = parse_language(token.info)
        if token.meta.get("is_growing"):
            return render_code(language, escape(token.content, quote=False))
        return render_code(language, colour_code(token.content, language))

    def ready(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return tokens[idx].content

    def code_block(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return render_code("", escape(tokens[idx].content, quote=False))

    def formula(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        mathml = render_mathml(token.content, is_display=token.meta["is_display"])
        return f"<p>{mathml}</p>\n" if token.block else mathml

    def footnote_mark(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        name, footnotes = tokens[idx].content, get_footnotes(env)
        if tokens[idx].meta.get("is_in_link"):
            return render_sup(footnotes.choose_label(name))
        return footnotes.render_mark(name)

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Render a link instead of the image: loading it would reveal to its host who reads
        when."""
        token = tokens[idx]
        address = str(token.attrs["src"])
        words = self.renderInlineAsText(token.children, options, env).strip()
        label = escape(_label_image(address, words))
        if token.meta.get("is_in_link"):
            return f'<span class="image">{label}</span>'
        return f'<a class="image"{_render_destination(address)}>{label}</a>'

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return f"<a{_render_destination(str(tokens[idx].attrs['href']))}>"

    def table_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return _open_table(tokens, idx)

    def table_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "</table></div></figure>\n"

    def bullet_list_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return self._open_by_direction(tokens, idx, options, env)

    def ordered_list_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return self._open_by_direction(tokens, idx, options, env)

    def blockquote_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return self._open_by_direction(tokens, idx, options, env)

    def _open_by_direction(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """Markers of a list and the line of a quotation are on the side where their text begins,
        also in an answer that is written in the other direction."""
        tokens[idx].attrSet("dir", "auto")
        return self.renderToken(tokens, idx, options, env)

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _render_cell(tokens[idx])

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _render_cell(tokens[idx])


def make_parser() -> MarkdownIt:
    options = {"html": False, "xhtmlOut": False, "maxNesting": MAX_NESTING}
    parser = _Parser("commonmark", options)
    parser.enable(["table", "strikethrough"])
    add_formulas(parser)
    add_footnotes(parser)
    return parser


PARSER: Final = make_parser()
_RENDERER: Final = _Renderer()


def render_tokens(tokens: list[Token], env: EnvType) -> str:
    """Return sanitised HTML of one block."""
    tokens = split_footnotes(tokens)
    mark_tasks(tokens)
    for token in tokens:
        if token.type == "inline":
            before = token.meta.get("before", "")
            if name := token.meta.get("footnote"):
                before = get_footnotes(env).render_number(name) + " "
            html = before + _render_inline(token.content, env)
            token.children = [Token("ready", "", 0, content=html)]
    return sanitise(_RENDERER.render(tokens, PARSER.options, env))


def render_code(language: str, code_html: str) -> str:
    """Return a code block. A script adds a copy button to its header."""
    return (
        f'<figure class="code"><header>{escape(language or _("text"))}</header>'
        f'<pre tabindex="0"><code>{code_html}</code></pre></figure>\n'
    )


def parse_language(info: str) -> str:
    """Return the first word after the opening of a fence."""
    words = info.split(maxsplit=1)
    return words[0][:MAX_LANGUAGE_CHARS] if words else ""


def _render_inline(content: str, env: EnvType) -> str:
    """Text without brackets needs no definitions and is cached: an open list repeats its lines. It
    has no image, whose label is in the language of the reader."""
    if "[" not in content and len(content) <= MAX_REMEMBERED_CHARS:
        return _render_inline_cached(content)
    if _measure_bracket_depth(content) > MAX_BRACKET_DEPTH:
        return escape(content)
    return _parse_and_render_inline(content, env)


@lru_cache(maxsize=4_096)
def _render_inline_cached(content: str) -> str:
    return _parse_and_render_inline(content, {})


def _parse_and_render_inline(content: str, env: EnvType) -> str:
    line = Token("inline", "", 0, content=content)
    line.children = link_addresses(PARSER, PARSER.inline.parse(content, PARSER, env, []))
    text_join(StateCore("", PARSER, env, [line]))
    _mark_in_links(line.children)
    return _RENDERER.renderInline(line.children, PARSER.options, env)


def _measure_bracket_depth(content: str) -> int:
    """The parser compares each open bracket with all later ones: thousands would take seconds."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(content):
        depth = max(depth + (1 if bracket == "[" else -1), 0)
        deepest = max(deepest, depth)
    return deepest


def _mark_in_links(tokens: Sequence[Token]) -> None:
    """Mark images and marks of footnotes inside links: a link inside a link would break the outer
    one."""
    depth = 0
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            depth += token.nesting
        elif token.type in ("image", "footnote_mark"):
            token.meta["is_in_link"] = depth > 0


def _render_destination(address: str) -> str:
    """Repeat the destination as the title, so that the link text cannot hide it."""
    return f' href="{escape(address)}" title="{escape(address)}"'


def _open_table(tokens: Sequence[Token], start: int) -> str:
    """A table can be wider than its column, so it scrolls in a box of its own. That is no region:
    regions of a page must have different names."""
    rest = (token.type for token in tokens[start:])
    count = sum(kind == "tr_open" for kind in takewhile(lambda kind: kind != "table_close", rest))
    rows = ngettext("%(count)d row", "%(count)d rows", count - 1) % {"count": count - 1}
    return (
        f'<figure class="table"><header>{escape(rows)}</header>'
        f'<div tabindex="0" role="group" aria-label="{escape(_("Table"))}"><table>\n'
    )


def _label_image(address: str, words: str) -> str:
    host = urlsplit(address).hostname or _("unknown host")
    if not words:
        return _("Image from %(host)s") % {"host": host}
    return _("Image from %(host)s: %(text)s") % {"host": host, "text": words}


def _render_cell(token: Token) -> str:
    """Set the alignment as a class: the content security policy drops style attributes."""
    alignment = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return (
        f'<{token.tag} class="{alignment}">' if alignment in ALIGNMENT_CLASSES else f"<{token.tag}>"
    )
