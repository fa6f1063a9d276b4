"""The Django admin of the chat. `mcpconfig.admin` holds the admin of services."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _lazy

from chatapp.views.account.sign_in import redirect_to_sign_in

from .activity import approvals, conversations, log, tasks, trials, turns
from .models import chat_models, providers
from .people import access_tokens, groups, members, usage
from .policy import policy, second_signatures
from .services import services, tools

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
    "tasks",
    "tools",
    "trials",
    "turns",
    "usage",
]

admin.site.site_header = _lazy("Countersign admin")
admin.site.site_title = "Countersign"
admin.site.index_title = _lazy("Overview")
# The admin uses the sign-in page of the chat, which limits attempts and gives the same answer for
# an unknown name as for a wrong password.
admin.site.login = redirect_to_sign_in  # type: ignore[method-assign]
