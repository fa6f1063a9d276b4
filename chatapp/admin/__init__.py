"""The Django admin of the chat. `mcpconfig.admin` holds the admin of services."""

from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import path
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _lazy

from chatapp.views.account.sign_in import redirect_to_sign_in

from .activity import approvals, conversations, feedback, log, tasks, trials, turns
from .badges import EMPTY
from .menu import build_menu
from .models import chat_models, embeddings, providers
from .overview import find, hiding
from .overview import page as overview
from .people import (
    access_tokens,
    groups,
    invitations,
    members,
    presets,
    shared_links,
    sign_in_rows,
    usage,
    webhooks,
)
from .policy import changes, policy, second_signatures
from .services import exchanges, services, tools
from .system import pages as system

__all__ = [
    "access_tokens",
    "approvals",
    "changes",
    "chat_models",
    "conversations",
    "embeddings",
    "exchanges",
    "feedback",
    "groups",
    "invitations",
    "log",
    "members",
    "overview",
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
    "webhooks",
]

admin.site.site_header = _lazy("Countersign admin")
admin.site.site_title = "Countersign"
admin.site.empty_value_display = EMPTY
admin.site.index_title = _lazy("Overview")
# The admin uses the sign-in page of the chat, which limits attempts and gives the same answer for
# an unknown name as for a wrong password.
admin.site.login = redirect_to_sign_in  # type: ignore[method-assign]

admin.site.index = overview.show_overview  # type: ignore[method-assign]
# A page with a hundred rows takes long.
admin.ModelAdmin.list_per_page = 50
# The menu takes the place of Django's sidebar, which needs JavaScript to open on a phone.
admin.site.enable_nav_sidebar = False

_build_context = admin.site.each_context
_get_urls = admin.site.get_urls


def build_context(request: HttpRequest) -> dict[str, Any]:
    """The context of each page, with its menu. It is built when a page shows it."""
    return {**_build_context(request), "menu": SimpleLazyObject(partial(build_menu, request))}


def get_urls() -> list[Any]:
    pages = {
        "live": ("live/", overview.show_live_part),
        "hide_need": ("hide/", hiding.hide_need),
        "find": ("find/", find.show_found),
        "checks": ("checks/", overview.show_checks),
        "system": ("system/", system.show_system),
        "system_settings": ("system/settings/", system.show_settings),
        "system_keys": ("system/keys/", system.show_keys),
    }
    own = [
        path(route, admin.site.admin_view(view), name=name) for name, (route, view) in pages.items()
    ]
    return own + _get_urls()


admin.site.each_context = build_context  # type: ignore[method-assign]
admin.site.get_urls = get_urls  # type: ignore[method-assign]
