"""The admin's pages about people and conversations; `mcpconfig.admin` has those about services."""

from django.contrib import admin
from django.contrib.auth.models import Group

from chatapp.views.sign_in import to_sign_in

from . import approvals, conversations, members, turns

__all__ = ["approvals", "conversations", "members", "turns"]

admin.site.site_header = "Countersign admin"
admin.site.site_title = "Countersign"
admin.site.index_title = "Overview"
# One door for everybody: throttled, the same answer for an unknown name, one look.
admin.site.login = to_sign_in  # type: ignore[method-assign]
admin.site.unregister(Group)
