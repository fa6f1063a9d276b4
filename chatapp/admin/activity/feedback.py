"""The admin of ratings of answers, read-only. Of a chat it shows only the comments that its owner
wrote for admins."""

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import render_badge
from chatapp.models import AnswerFeedback
from mcpconfig.admin.big_lists import SEARCHES_NEWEST, BigListMixin, RecentValuesFilter
from mcpconfig.admin.read_only import ReadOnlyMixin

from .filters import DateFilter


@admin.register(AnswerFeedback)
class FeedbackAdmin(BigListMixin, ReadOnlyMixin, admin.ModelAdmin):
    empty_list = _lazy("No feedback yet. Members can rate answers and add a comment.")
    list_display = ("saved_at", "owner", "model", "rating_badge", "comment")
    # The page of an entry would show no more than its line.
    list_display_links = None
    list_filter = ("is_good", ("model", RecentValuesFilter), ("saved_at", DateFilter))
    list_select_related = ("message__conversation__owner",)
    search_fields = ("comment",)
    search_help_text = SEARCHES_NEWEST
    ordering = ("-saved_at",)
    fields = ("saved_at", "owner", "model", "rating_badge", "comment")
    readonly_fields = fields

    @admin.display(description=_lazy("Member"), ordering="message__conversation__owner")
    def owner(self, row: AnswerFeedback) -> str:
        return str(row.message.conversation.owner)

    @admin.display(description=_lazy("Rating"), ordering="is_good")
    def rating_badge(self, row: AnswerFeedback) -> SafeString | str:
        return render_badge("good" if row.is_good else "bad", row.get_is_good_display())
