"""Apps: what a tool brought to be shown beside its result, stored as it was at its call."""

from django.db import models

from chatapp.models.turns.tool_call import ToolCall


class AppContents(models.Model):
    """The page of an app. All calls with the same page share the row."""

    hash = models.CharField(max_length=64, primary_key=True)
    html = models.TextField()

    def __str__(self) -> str:
        return self.hash


class App(models.Model):
    """The app of one call: read once, and the same after every reload.

    `connects` and `loads` are the origins that it asked for. The admin's settings decide, each time
    it is shown, which of them it gets.
    """

    tool_call = models.OneToOneField(
        ToolCall, on_delete=models.CASCADE, primary_key=True, related_name="app"
    )
    contents = models.ForeignKey(AppContents, on_delete=models.PROTECT, related_name="apps")
    uri = models.TextField()
    connects = models.JSONField(default=list)
    loads = models.JSONField(default=list)
    read_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"app of {self.tool_call_id}"
