"""The Django admin of the chat. `mcpconfig.admin` holds the admin of services."""

from typing import Any, cast

from django.contrib import admin
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import Member
from chatapp.views.account.sign_in import redirect_to_sign_in

from .activity import approvals, conversations, feedback, log, tasks, trials, turns
from .badges import EMPTY
from .glossary import list_terms
from .models import chat_models, providers
from .people import (
    access_tokens,
    groups,
    members,
    presets,
    shared_links,
    sign_in_rows,
    usage,
)
from .policy import policy, second_signatures
from .services import services, tools
from .setup_checklist import load_setup_checklist

__all__ = [
    "access_tokens",
    "approvals",
    "chat_models",
    "conversations",
    "feedback",
    "groups",
    "log",
    "members",
    "policy",
    "presets",
    "providers",
    "second_signatures",
    "services",
    "shared_links",
    "sign_in_rows",
    "tasks",
    "tools",
    "trials",
    "turns",
    "usage",
]

admin.site.site_header = _lazy("Countersign admin")
admin.site.site_title = "Countersign"
admin.site.empty_value_display = EMPTY
admin.site.index_title = _lazy("Overview")
# The admin uses the sign-in page of the chat, which limits attempts and gives the same answer for
# an unknown name as for a wrong password.
admin.site.login = redirect_to_sign_in  # type: ignore[method-assign]

_show_index = admin.site.index


def show_overview(
    request: HttpRequest, extra_context: dict[str, Any] | None = None
) -> TemplateResponse:
    """The index of the admin, with what a new installation still needs and a glossary."""
    setup = load_setup_checklist(cast(Member, request.user))
    context = {"setup": setup, "glossary": list_terms(), **(extra_context or {})}
    return _show_index(request, context)


admin.site.index = show_overview  # type: ignore[method-assign]
