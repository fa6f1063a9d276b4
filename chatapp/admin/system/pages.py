"""The pages about the system: its state, its settings with their sources, and its keys."""

from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_safe

from chatapp.models import Member
from chatapp.people.admin_rights import CHANGE_CREDENTIALS, VIEW_CHECKS
from mcpconfig.services.secret_rotation import Rotation

from .cards import list_cards
from .keys import count_key_use, rotate

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SOURCES: "dict[str, StrOrPromise]" = {
    "environment": _lazy("environment"),
    "file": _lazy(".env file"),
    "default": _lazy("default"),
}


@require_safe
def show_system(request: HttpRequest) -> HttpResponse:
    person = _check_right(request, VIEW_CHECKS)
    return _render(request, "system", _("System"), cards=list_cards(person))


@require_safe
def show_settings(request: HttpRequest) -> HttpResponse:
    """Every setting that was read, with where it was set. Texts, addresses and lists may hold
    secrets, so only whether they are set is shown."""
    _check_right(request, VIEW_CHECKS)
    only_set = request.GET.get("set") == "yes"
    read = [each for each in settings.ENV.list_read() if not only_set or each.source != "default"]
    rows = [(each.name, each.text, SOURCES[each.source], each.source) for each in read]
    return _render(request, "settings", _("Settings"), rows=rows, only_set=only_set)


@require_http_methods(["GET", "HEAD", "POST"])
def show_keys(request: HttpRequest) -> HttpResponse:
    """Which keys encrypt the stored secrets. A POST encrypts them with the newest."""
    person = _check_right(request, VIEW_CHECKS)
    may_rotate = person.has_perm(CHANGE_CREDENTIALS)
    if request.method == "POST":
        if not may_rotate:
            raise PermissionDenied
        _report(request, rotate(person))
        return redirect("admin:system_keys")
    use = count_key_use()
    return _render(request, "keys", _("Keys"), use=use, may_rotate=may_rotate)


def _check_right(request: HttpRequest, right: str) -> Member:
    person = cast(Member, request.user)
    if not person.has_perm(right):
        raise PermissionDenied
    return person


def _report(request: HttpRequest, rotation: Rotation) -> None:
    text = ngettext(
        "%(count)s secret was encrypted with the newest key.",
        "%(count)s secrets were encrypted with the newest key.",
        rotation.rotated,
    )
    messages.success(request, text % {"count": rotation.rotated})
    if rotation.missed:
        messages.warning(request, _("Some secrets changed meanwhile. Encrypt again."))
    if rotation.unreadable:
        messages.error(request, _("No key opens some secrets. They are listed below."))


def _render(request: HttpRequest, name: str, title: str, **context: Any) -> TemplateResponse:
    shared = admin.site.each_context(request)
    return TemplateResponse(
        request, f"admin/system/{name}.html", {**shared, "title": title, **context}
    )
