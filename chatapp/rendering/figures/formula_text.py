"""A formula as plain text: MathML without its tags would read `10^6` as 106 and 1/2 as 12."""

from collections.abc import Sequence
from typing import Final

Child = tuple[str, str]  # the tag and its text

# Between the children of an element; the last one is repeated.
_MARKS: Final = {
    **dict.fromkeys(["msup", "mover"], ("^",)),
    **dict.fromkeys(["msub", "munder", "mmultiscripts"], ("_",)),
    **dict.fromkeys(["msubsup", "munderover"], ("_", "^")),
    **{"mfrac": ("/",), "mtr": (" & ",), "mtable": (" ; ",)},
}


def write_element(tag: str, children: Sequence[Child]) -> str:
    """Return the text of an element with children. No text of several numbers reads as one."""
    match tag:
        case "mphantom":
            return ""
        case "msqrt":
            return f"√{_enclose(('mrow', _write_row(children)))}"
        case "mroot" if len(children) > 1:
            return f"{_enclose(children[1])}√{_enclose(children[0])}"
    marks = _MARKS.get(tag)
    if marks is None or not children:
        return _write_row(children)
    text = _enclose(children[0])
    for index, child in enumerate(children[1:]):
        text += marks[min(index, len(marks) - 1)] + _enclose(child)
    return text


def _write_row(children: Sequence[Child]) -> str:
    """Put a space between two children, but none beside an operator, such as in `1,234`."""
    text, needs_space = "", False
    for tag, part in children:
        if not part:
            continue
        text += f" {part}" if needs_space and tag != "mo" else part
        needs_space = tag != "mo"
    return text


def _enclose(child: Child) -> str:
    tag, text = child
    is_simple = tag not in ("mrow", "mfrac") or text.isalnum() or not text
    return text if is_simple else f"({text})"
