"""What a person used of the models this month, and what an admin allows them."""

from django.db.models import Sum
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from chatapp.models import UsageOfDay
from chatapp.turns import usage as using

from .access import MemberRequest, for_members
from .conversations import sidebar_context


@for_members("GET")
def usage(request: MemberRequest) -> HttpResponse:
    today = timezone.now().date()
    first = today.replace(day=1)
    rows = UsageOfDay.objects.filter(person=request.user, day__gte=first)
    by_model = rows.values("model", "currency").annotate(
        answers=Sum("calls"),
        read=Sum("input_tokens"),
        cached=Sum("cached_tokens"),
        written=Sum("output_tokens"),
        spent=Sum("cost"),
    )
    context = {
        "first": first,
        "models": by_model.order_by("-written"),
        "standings": using.standings(request.user, today),
        "begins_anew": using.hint(today),
        **sidebar_context(request.user, ""),
    }
    return render(request, "chat/usage.html", context)
