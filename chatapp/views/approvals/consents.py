"""What the assistant may do for a person without asking, and taking that back."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.models import Consent, HousePolicy
from chatapp.turns import consents as allowing
from chatapp.turns.policy import live_consents

from .access import MemberRequest, for_members
from .conversations import sidebar_context


@for_members("GET")
def consents(request: MemberRequest) -> HttpResponse:
    house = HousePolicy.current()
    live = live_consents(request.user, house).select_related("service", "conversation")
    rows = allowing.standings(live, house)
    context = {"rows": rows, "days": house.consent_days, **sidebar_context(request.user, "")}
    return render(request, "chat/consents.html", context)


@for_members("POST")
def revoke(request: MemberRequest, consent_id: uuid.UUID) -> HttpResponse:
    allowing.revoke(Consent.of(request.user, consent_id))
    return redirect("consents")
