"""Code that a browser can show as a page: HTML and SVG."""

from typing import Final

from .values import CodeBlock

# SVG stands in a page, so that it is as wide as its frame and faults of its XML do not hide it.
_SVG_PAGE: Final = (
    "<!doctype html><style>body{{margin:0}}svg{{max-width:100%;height:auto}}</style>{svg}"
)
_LANGUAGES: Final = frozenset({"html", "svg"})


def is_page(language: str) -> bool:
    """Whether code with this name after its fence has a preview."""
    return language.strip().lower() in _LANGUAGES


def build_page(code: CodeBlock) -> str:
    """Return the page as the code has it. It is untrusted, scripts included: serve it in a sandbox
    only."""
    if code.language.lower() == "svg":
        return _SVG_PAGE.format(svg=code.text)
    return code.text
