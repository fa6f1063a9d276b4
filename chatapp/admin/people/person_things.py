"""All things of one kind that a person has, and how an admin ends them: permissions that were given
in advance, sessions and access tokens. Each end is in the activity log."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.accounts.sessions import end_all_sessions, end_session
from chatapp.api import access_tokens
from chatapp.audit.audit_log import Who
from chatapp.models import AccessToken, Consent, Member
from chatapp.policy import consents
from mcpconfig.values.numbers import read_number

from .person_page import KINDS, Kind, build_section, find_person

ROWS_PER_PAGE = 50
# More rows of one kind are not listed.
MOST_ROWS = 1_000
# What the button that ends all sends in the place of a key.
ALL = "all"


def show_things(pages: Any, request: HttpRequest, pk: int, kind: str) -> HttpResponse:
    person, reader = find_person(pages, request, pk), cast(Member, request.user)
    found = KINDS.get(kind)
    if found is None:
        raise Http404("No such things.")
    if not reader.has_perm(found.permission):
        raise PermissionDenied
    if request.method == "POST":
        return _end_things(request, found, person, reader)
    rows = Paginator(list(found.list_rows(person, MOST_ROWS)), ROWS_PER_PAGE)
    page = rows.get_page(request.GET.get("page"))
    section = build_section(found, person, reader, list(page.object_list), ROWS_PER_PAGE)
    context = {
        **admin.site.each_context(request),
        "opts": pages.opts,
        "title": _("%(things)s of %(person)s")
        % {"things": section.title, "person": person.display_name},
        "person": person,
        "section": section,
        "page": page,
        "all": ALL,
    }
    return TemplateResponse(request, "admin/chatapp/member/things.html", context)


# --- ending --------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How things of a kind end. Both return how many did."""

    end_one: Callable[[Member, str, Who], int]
    end_all: Callable[[Member, Who], int]
    describe: Callable[[int], str]


def _end_things(request: HttpRequest, kind: Kind, person: Member, reader: Member) -> HttpResponse:
    """End one thing or all, and return to the page that the button was on."""
    ending = ENDINGS.get(kind.name)
    if ending is None or not kind.may_end(person, reader):
        raise PermissionDenied
    key, by = request.POST.get("end", ""), Who.of(reader)
    count = ending.end_all(person, by) if key == ALL else ending.end_one(person, key, by)
    if count:
        messages.success(request, ending.describe(count))
    else:
        messages.warning(request, _("Already ended. Nothing was changed."))
    if request.POST.get("back") == "person":
        return redirect("admin:chatapp_member_person", person.pk)
    return redirect("admin:chatapp_member_things", person.pk, kind.name)


def _read_id(key: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(key)
    except ValueError:
        return None


def _end_permission(person: Member, key: str, _by: Who) -> int:
    return _revoke_permissions(person, pk=_read_id(key))


def _revoke_permissions(person: Member, **chosen: Any) -> int:
    given = Consent.objects.filter(person=person, revoked_at=None, **chosen)
    return sum(consents.revoke(each) for each in given.select_related("service", "person"))


def _end_token(person: Member, key: str, _by: Who) -> int:
    return _revoke_tokens(person, pk=_read_id(key))


def _revoke_tokens(person: Member, **chosen: Any) -> int:
    """Revoke the tokens that the page lists: those that have not expired."""
    tokens = AccessToken.objects.filter(
        person=person, revoked_at=None, expires_at__gt=timezone.now(), **chosen
    )
    return sum(access_tokens.revoke(each) for each in tokens.select_related("person"))


ENDINGS = {
    "permissions": Ending(
        end_one=_end_permission,
        end_all=lambda person, _by: _revoke_permissions(person),
        describe=lambda n: (
            ngettext(
                "Revoked %(number)s permission. Its tools ask again.",
                "Revoked %(number)s permissions. Their tools ask again.",
                n,
            )
            % {"number": n}
        ),
    ),
    "sessions": Ending(
        end_one=lambda person, key, by: int(end_session(person, read_number(key) or 0, by)),
        end_all=end_all_sessions,
        describe=lambda n: (
            ngettext("Ended %(number)s session.", "Ended %(number)s sessions.", n) % {"number": n}
        ),
    ),
    "tokens": Ending(
        end_one=_end_token,
        end_all=lambda person, _by: _revoke_tokens(person),
        describe=lambda n: (
            ngettext("Revoked %(number)s token.", "Revoked %(number)s tokens.", n) % {"number": n}
        ),
    ),
}
