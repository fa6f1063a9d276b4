"""Parts of an exchange as text, for its own page and for that of its operation."""

from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from mcpconfig.models import Exchange
from mcpconfig.trace.formatting import format_body

from .display import EMPTY, draw_block


def describe_request(exchange: Exchange) -> str:
    return f"{exchange.method} {exchange.rpc_method}".strip()


def describe_messages(exchange: Exchange) -> list[str]:
    """Return one line for each message in the answer, and one for those that were not kept."""
    lines = [
        " ".join(filter(None, (heard["kind"], heard["method"], heard["id"])))
        for heard in exchange.heard
    ]
    if (more := exchange.heard_count - len(lines)) > 0:
        lines.append(_("and %(number)s more") % {"number": more})
    return lines


def render_body(body: str, size: int) -> SafeString | str:
    """Return an escaped body, with a note if only the beginning of it was stored.

    `size` is the size of the whole body in bytes.
    """
    if not body:
        return EMPTY
    note = (
        ""
        if size <= settings.TRACE_BODY_BYTES
        else _("The first %(shown)s of %(size)s bytes.")
        % {
            "shown": intcomma(len(body)),
            "size": intcomma(size),
        }
    )
    return format_html("{}{}", draw_block(format_body(body)), note)
