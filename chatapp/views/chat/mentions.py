"""Suggestions for the word at the cursor: mentions after `@`, prompts after `/`."""

from django.http import HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _

from chatapp.policy.forbidden_tools import find_hidden_tools
from chatapp.tools.mentions import suggest_mentions
from chatapp.views.access import MemberRequest, for_members

from . import prompts
from .picker import close_picker, render_step


def suggest(request: MemberRequest) -> HttpResponseBase:
    """`mention` is the word before the cursor where it begins with `@`."""
    return _suggest_mentions(request) if request.POST.get("mention") else prompts.suggest(request)


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
