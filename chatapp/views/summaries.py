"""Taking a summary back, and using it again."""

from django.http import HttpResponse
from django.shortcuts import redirect

from chatapp.models import Summary
from chatapp.turns import summaries

from .access import MemberRequest, for_members


@for_members("POST")
def use(request: MemberRequest, summary_id: int) -> HttpResponse:
    """The socket, or the page that follows, shows what counts now."""
    summary = Summary.of(request.user, summary_id)
    summaries.use(summary, is_used=request.POST.get("use") == "yes")
    if request.htmx:
        return HttpResponse(status=204)
    return redirect("conversation", summary.conversation_id)
