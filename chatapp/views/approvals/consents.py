"""The permissions that a person gave in advance, and their removal."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.models import Consent, HousePolicy
from chatapp.policy import consents as allowing
from chatapp.policy.stored_policy import filter_live_consents
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context


@for_members("GET")
def consents(request: MemberRequest) -> HttpResponse:
    house = HousePolicy.current()
    live = filter_live_consents(request.user, house).select_related("service", "conversation")
    rows = allowing.assess(live, house)
    context = {
        "rows": rows,
        "days": house.consent_days,
        "has_checks": bool(house.check_each),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/consents.html", context)


@for_members("POST")
def revoke(request: MemberRequest, consent_id: uuid.UUID) -> HttpResponse:
    allowing.revoke(Consent.of(request.user, consent_id))
    return redirect("consents")
