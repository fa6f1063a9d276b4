"""The admin's pages about people and conversations; `mcpconfig.admin` has those about services."""

from django.contrib import admin

from chatapp.views.sign_in import to_sign_in

from . import (
    access_tokens,
    approvals,
    chat_models,
    conversations,
    groups,
    log,
    members,
    policy,
    providers,
    second_signatures,
    services,
    tools,
    trials,
    turns,
    usage,
)

__all__ = [
    "access_tokens",
    "approvals",
    "chat_models",
    "conversations",
    "groups",
    "log",
    "members",
    "policy",
    "providers",
    "second_signatures",
    "services",
    "tools",
    "trials",
    "turns",
    "usage",
]

admin.site.site_header = "Countersign admin"
admin.site.site_title = "Countersign"
admin.site.index_title = "Overview"
# One door for everybody: throttled, the same answer for an unknown name, one look.
admin.site.login = to_sign_in  # type: ignore[method-assign]
