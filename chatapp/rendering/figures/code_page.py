"""Code that a browser can show as a page or as a diagram: HTML, SVG and Mermaid."""

from typing import Final, Literal

from .values import CodeBlock

PreviewKind = Literal["", "page", "diagram"]

# SVG stands in a page, so that it is as wide as its frame and faults of its XML do not hide it.
_SVG_PAGE: Final = (
    "<!doctype html><style>body{{margin:0}}svg{{max-width:100%;height:auto}}</style>{svg}"
)
_KINDS: Final[dict[str, PreviewKind]] = {"html": "page", "svg": "page", "mermaid": "diagram"}


def find_preview_kind(language: str) -> PreviewKind:
    """Return what code with this name after its fence can be shown as; empty for other code."""
    return _KINDS.get(language.strip().lower(), "")


def build_page(code: CodeBlock) -> str:
    """Return the page as the code has it. It is untrusted, scripts included: serve it in a sandbox
    only."""
    if code.language.lower() == "svg":
        return _SVG_PAGE.format(svg=code.text)
    return code.text
