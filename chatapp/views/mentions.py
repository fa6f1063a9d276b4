"""What the words at the cursor may become: a mention after `@`, else a prompt after `/`."""

from django.http import HttpResponse, HttpResponseBase

from chatapp.tools.mentionable import offered_for
from chatapp.turns.forbidden_tools import unmentionable

from . import prompts
from .access import MemberRequest, for_members
from .picker import closed, step


def typed(request: MemberRequest) -> HttpResponseBase:
    """`mention` is the word before the cursor where it begins with `@`."""
    return _mentions(request) if request.POST.get("mention") else prompts.slash(request)


@for_members("POST")
def _mentions(request: MemberRequest) -> HttpResponse:
    typed = request.POST["mention"]
    offered = offered_for(request.user, typed, unmentionable(request.user))
    if not offered.choices:
        return closed(request)
    # The page takes no offer for another word than the one that stands there by then.
    return step(request, "mentions", {"offered": offered, "typed": typed, "heading": "Mention"})
