"""What the chat's pages send, read strictly. What a message may say, `turns/intake.py` checks."""

import uuid
from collections.abc import Collection
from typing import Any

from django import forms

from chatapp.models import AccessToken, Consent, Conversation
from chatapp.turns.answers import REASON_CHARACTERS
from mcpconfig.models.service import GUIDANCE_CHARACTERS


class IdsField(forms.Field):
    """Ids in any number, each a field of its own with the same name."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[uuid.UUID]:
        try:
            return [uuid.UUID(each) for each in value or []]
        except ValueError:
            raise forms.ValidationError("One of these is no id.") from None


class TypedField(forms.CharField):
    """Text of several lines. Browsers end a line in a form with two characters, whatever was typed,
    and count one."""

    def to_python(self, value: Any) -> str:
        return (super().to_python(value) or "").replace("\r\n", "\n")


class MessageForm(forms.Form):
    """A message. `client_id` is made with the page, so that sending twice is accepted once."""

    text = TypedField(required=False, strip=False)
    model = forms.CharField(required=False, max_length=200)
    client_id = forms.UUIDField(required=False)
    attachments = IdsField(required=False)
    mode = forms.ChoiceField(choices=Conversation.Mode.choices, required=False)
    tools = forms.ChoiceField(choices=[("on", "On"), ("off", "Off")], required=False)


class GuidanceForm(forms.Form):
    """What a person tells the assistant about a service, or about the tool that is named."""

    text = TypedField(
        required=False,
        max_length=GUIDANCE_CHARACTERS,
        error_messages={
            "max_length": f"At most {GUIDANCE_CHARACTERS} characters: this has %(show_value)d."
        },
    )
    tool = forms.CharField(required=False, strip=False)

    def __init__(self, *args: Any, tools: Collection[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tools = tools

    def clean_tool(self) -> str:
        """What was said of a tool that is gone can still be taken away."""
        tool: str = self.cleaned_data["tool"]
        if tool and tool not in self.tools and self.cleaned_data.get("text") != "":
            raise forms.ValidationError("The service has no tool of this name.")
        return tool


class DecisionForm(forms.Form):
    """An answer to an approval card. `version` is the binding of what was shown. A button of the
    card says with `decision` for how long; programs say it with `scope`."""

    decision = forms.ChoiceField(
        choices=[
            ("run", "Run"),
            *Consent.Scope.choices,
            ("change", "Run with these values"),
            ("deny", "Do not run"),
        ]
    )
    scope = forms.ChoiceField(choices=[("once", "Once"), *Consent.Scope.choices], required=False)
    arguments = forms.CharField(required=False, strip=False)
    typed = forms.CharField(required=False, max_length=300)
    reason = TypedField(required=False, max_length=REASON_CHARACTERS)
    version = forms.CharField(max_length=64)
    shown_at = forms.CharField(required=False, max_length=200)


class TokenForm(forms.Form):
    """A new access token. `form_id` is made with the page, so that one form makes one token."""

    DAYS = ((7, "a week"), (30, "a month"), (90, "three months"), (366, "a year"))

    form_id = forms.UUIDField(widget=forms.HiddenInput)
    name = forms.CharField(
        max_length=60,
        label="What is it for?",
        widget=forms.TextInput(attrs={"placeholder": "Invoices at month's end"}),
    )
    scopes = forms.MultipleChoiceField(
        choices=AccessToken.Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        label="What may the program do?",
    )
    days = forms.TypedChoiceField(
        choices=DAYS, coerce=int, initial=90, label="How long shall it work?"
    )


class ListField(forms.Field):
    """Texts in any number up to a bound, each a field of its own with the same name."""

    widget = forms.MultipleHiddenInput
    MOST = 200

    def to_python(self, value: Any) -> list[str]:
        texts = [str(each) for each in value or []]
        if len(texts) > self.MOST:
            raise forms.ValidationError("These are too many at once.")
        return texts


class BatchForm(forms.Form):
    """One answer to several calls of a chat. `shown` has a text from each card that waits, `run`
    the ids of those that are ticked."""

    decision = forms.ChoiceField(
        choices=[("run", "Run"), ("select", "Select all"), ("deny", "Do not run any")]
    )
    chat = forms.UUIDField()
    shown = ListField()
    run = IdsField(required=False)


class ReviewForm(forms.Form):
    """What a person says about a result that the assistant has not seen. `version` is the hash of
    what was shown."""

    decision = forms.ChoiceField(choices=[("give", "Give it"), ("hold", "Hold it back")])
    reason = TypedField(required=False, max_length=REASON_CHARACTERS)
    version = forms.CharField(max_length=64)
    shown_at = forms.CharField(required=False, max_length=200)


class DayInput(forms.DateInput):
    """A day as browsers take it."""

    input_type = "date"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%d")


class StandInForm(forms.Form):
    """Who signs in an approver's place, and on which days."""

    username = forms.CharField(
        max_length=150, label="User name", widget=forms.TextInput(attrs={"autocapitalize": "off"})
    )
    begins_on = forms.DateField(label="First day", widget=DayInput)
    ends_on = forms.DateField(label="Last day", widget=DayInput)


class ResolutionForm(forms.Form):
    """What a person says became of a call whose outcome is unknown."""

    verdict = forms.ChoiceField(choices=[(word, word) for word in ("worked", "did-not", "again")])
    shown_at = forms.CharField(required=False, max_length=200)
    typed = forms.CharField(required=False, max_length=300)
