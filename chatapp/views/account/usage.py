"""The usage of a person this month, and their allowance."""

from django.db.models import Sum
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone

from chatapp.models import UsageOfDay
from chatapp.providers.access import usage as using
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context


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
        "standings": using.list_allowance_use(request.user, today),
        "begins_anew": using.describe_renewal(today),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/usage.html", context)
