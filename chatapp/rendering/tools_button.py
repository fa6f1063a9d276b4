"""HTML of the button that opens the Tools menu, for the page and for its socket."""

from django.template.loader import render_to_string

from . import page


def tools_button(
    count: int, keep: str, *, is_new: bool, is_off: bool, is_live: bool = False
) -> str:
    """`keep` differs whenever the menu would; `is_live`: the socket brings it, because of that.
    `is_new`: its chat is not begun, so that a box on the page says whether tools are off."""
    context = {
        "element_id": page.TOOLS_ID,
        "count": count,
        "keep": keep,
        "is_new": is_new,
        "is_off": is_off,
        "is_live": is_live,
    }
    return render_to_string("chat/_tools_button.html", context)
