"""Suggestions for the word at the cursor: mentions after `@`, commands and prompts after `/`."""

from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _

from chatapp.policy.forbidden_tools import find_hidden_tools
from chatapp.tools.mentions import suggest_mentions
from chatapp.views.access import MemberRequest, for_members

from . import prompts
from .picker import close_picker, render_step


def suggest(request: MemberRequest) -> HttpResponseBase:
    """`mention` is what is before the cursor: a word that begins with `@`, or all of a message that
    begins with `/`."""
    is_mention = request.POST.get("mention", "").startswith("@")
    return _suggest_mentions(request) if is_mention else prompts.suggest(request)


@for_members("POST")
def _suggest_mentions(request: MemberRequest) -> HttpResponse:
    word = request.POST["mention"]
    offered = suggest_mentions(request.user, word, find_hidden_tools(request.user))
    if not offered.choices:
        return close_picker(request)
    # The page ignores suggestions for a word that has changed in the meantime.
    return render_step(
        request, "mentions", {"offered": offered, "typed": word, "heading": _("Mention")}
    )
