"""Who needs a second factor, and the mark of a session whose person has one."""

from typing import Any

from django.conf import settings

from chatapp.models import Member

# In a session: when it was last seen that its person has a second factor.
SESSION_MARK = "has_second_factor"


def needs_second_factor(member: Member) -> bool:
    """Whether REQUIRE_TWO_FACTOR asks this member for a second factor."""
    rule = settings.REQUIRE_TWO_FACTOR
    return rule == "all" or (rule == "admins" and member.is_staff)


def may_use_pages(member: Member, session: Any) -> bool:
    """Whether this session may show pages: one that needs a second factor and has none set up may
    only set it up. It reads no row."""
    return not needs_second_factor(member) or bool(session.get(SESSION_MARK))
