"""The forms of the chat pages. `conversations/intake.py` checks the content of messages."""

import uuid
from collections.abc import Collection
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models.service import MAX_GUIDANCE_CHARACTERS

from .approvals.decisions import REASON_CHARACTERS
from .models import AccessToken, Consent, Conversation, SharedLink
from .models.conversations.answer_feedback import FEEDBACK_CHARACTERS
from .models.conversations.conversation import MAX_INSTRUCTIONS_CHARACTERS
from .providers.request import FEWEST_OUTPUT_TOKENS, HIGHEST_TEMPERATURE, MOST_OUTPUT_TOKENS


class IdsField(forms.Field):
    """Any number of ids, each in a separate field with the same name."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> list[uuid.UUID]:
        try:
            return [uuid.UUID(each) for each in value or []]
        except ValueError:
            raise forms.ValidationError(_("One of the ids is not valid.")) from None


class TypedField(forms.CharField):
    """Text of several lines. Browsers send two characters for each line end but count one."""

    def to_python(self, value: Any) -> str:
        return (super().to_python(value) or "").replace("\r\n", "\n")


class MessageForm(forms.Form):
    """A message. `client_id` is created with the page, so that a repeated post is accepted once."""

    text = TypedField(required=False, strip=False)
    model = forms.CharField(required=False, max_length=200)
    client_id = forms.UUIDField(required=False)
    attachments = IdsField(required=False)
    mode = forms.ChoiceField(choices=Conversation.Mode.choices, required=False)
    tools = forms.ChoiceField(
        choices=[("on", gettext_lazy("On")), ("off", gettext_lazy("Off"))], required=False
    )
    temporary = forms.BooleanField(required=False)
    effort = forms.CharField(required=False)
    queue = forms.CharField(required=False)
    draft = forms.UUIDField(required=False)


class DraftForm(forms.Form):
    """A message that is not sent yet, and its chat, if it has one. `draft` is the id of the draft
    that its page was loaded with."""

    text = TypedField(required=False, strip=False)
    attachments = IdsField(required=False)
    client_id = forms.UUIDField(required=False)
    draft = forms.UUIDField(required=False)
    chat = forms.UUIDField(required=False)


class EditForm(forms.Form):
    """Another version of a message. `client_id` is created with the form, as in `MessageForm`."""

    text = TypedField(required=False, strip=False)
    client_id = forms.UUIDField(required=False)


class FeedbackForm(forms.Form):
    """A rating of an answer with its comment, or no rating any more."""

    rating = forms.ChoiceField(
        choices=[
            ("good", gettext_lazy("Good answer")),
            ("bad", gettext_lazy("Bad answer")),
            ("none", gettext_lazy("No rating")),
        ],
        error_messages={
            "required": gettext_lazy("Choose a rating."),
            "invalid_choice": gettext_lazy("Choose a rating."),
        },
    )
    comment = TypedField(
        required=False,
        max_length=FEEDBACK_CHARACTERS,
        error_messages={
            "max_length": gettext_lazy(
                "This comment has %(show_value)d characters. The limit is %(limit_value)d."
            )
        },
    )


class ShareForm(forms.Form):
    """A new link to a chat. Links for anyone are offered only if the server allows them."""

    audience = forms.ChoiceField(
        label=gettext_lazy("Who can open it"),
        initial=SharedLink.Audience.MEMBERS.value,
        widget=forms.RadioSelect,
        error_messages={
            "required": gettext_lazy("Choose who can open the link."),
            "invalid_choice": gettext_lazy(
                "On this server, only people who are signed in can open a link. Choose people here."
            ),
        },
    )
    days = forms.TypedChoiceField(
        label=gettext_lazy("Expires after"),
        initial="7",
        coerce=int,
        empty_value=None,
        required=False,
        choices=[
            ("1", gettext_lazy("1 day")),
            ("7", gettext_lazy("7 days")),
            ("30", gettext_lazy("30 days")),
            ("", gettext_lazy("Never")),
        ],
    )
    tools = forms.ChoiceField(
        label=gettext_lazy("Tool calls"),
        initial=SharedLink.Tools.OUTCOMES.value,
        widget=forms.RadioSelect,
        choices=[
            (SharedLink.Tools.NONE.value, gettext_lazy("No tool calls")),
            (SharedLink.Tools.OUTCOMES.value, gettext_lazy("Names and outcomes")),
            (SharedLink.Tools.FULL.value, gettext_lazy("With arguments and results")),
        ],
        error_messages={"required": gettext_lazy("Choose what the link shows of tool calls.")},
    )
    includes_files = forms.BooleanField(
        label=gettext_lazy("Include attached files"), required=False
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        members = gettext_lazy("People here: every member who is signed in")
        anyone = gettext_lazy("Anyone with the link, without signing in")
        choices = [(SharedLink.Audience.MEMBERS.value, members)]
        if settings.SHARE_WITH_ANYONE:
            choices.append((SharedLink.Audience.ANYONE.value, anyone))
        cast(forms.ChoiceField, self.fields["audience"]).choices = choices


class GuidanceForm(forms.Form):
    """A person's guidance about a service, or about the named tool."""

    text = TypedField(
        required=False,
        max_length=MAX_GUIDANCE_CHARACTERS,
        error_messages={
            "max_length": gettext_lazy(
                "This text has %(show_value)d characters. Shorten it to %(limit_value)d."
            )
        },
    )
    tool = forms.CharField(required=False, strip=False)

    def __init__(self, *args: Any, tools: Collection[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tools = tools

    def clean_tool(self) -> str:
        """Accept the name of a removed tool if its guidance is deleted."""
        tool: str = self.cleaned_data["tool"]
        if tool and tool not in self.tools and self.cleaned_data.get("text") != "":
            raise forms.ValidationError(_("The service has no tool with this name."))
        return tool


class ParametersForm(forms.Form):
    """The parameters of the model in a chat or an assistant. Empty ones are the model's own."""

    temperature = forms.FloatField(
        required=False,
        min_value=0,
        max_value=HIGHEST_TEMPERATURE,
        label=gettext_lazy("Temperature"),
        widget=forms.NumberInput(attrs={"step": "0.1", "inputmode": "decimal"}),
    )
    output_tokens = forms.IntegerField(
        required=False,
        min_value=FEWEST_OUTPUT_TOKENS,
        max_value=MOST_OUTPUT_TOKENS,
        label=gettext_lazy("Longest answer (tokens)"),
    )


class InstructionsForm(ParametersForm):
    """A person's instructions for a chat, and its parameters."""

    text = TypedField(required=False)

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        if len(text) > MAX_INSTRUCTIONS_CHARACTERS:
            sentence = _("These instructions have %(count)s characters. The limit is %(most)s.")
            most = intcomma(MAX_INSTRUCTIONS_CHARACTERS)
            raise forms.ValidationError(sentence % {"count": intcomma(len(text)), "most": most})
        return text


class DecisionForm(forms.Form):
    """An answer to an approval card. `version` is the binding of what was shown. The buttons of the
    card send how long to allow the call as `decision`, programs as `scope`."""

    decision = forms.ChoiceField(
        choices=[
            ("run", gettext_lazy("Allow once")),
            *Consent.Scope.choices,
            ("change", gettext_lazy("Allow with these values")),
            ("deny", gettext_lazy("Deny")),
        ]
    )
    scope = forms.ChoiceField(
        choices=[("once", gettext_lazy("Once")), *Consent.Scope.choices], required=False
    )
    arguments = forms.CharField(required=False, strip=False)
    typed = forms.CharField(required=False, max_length=300)
    reason = TypedField(required=False, max_length=REASON_CHARACTERS)
    version = forms.CharField(max_length=64)
    shown_at = forms.CharField(required=False, max_length=200)


class TokenForm(forms.Form):
    """A new access token. `form_id` is created with the page, so that one form creates one
    token."""

    DAYS = (
        (7, gettext_lazy("1 week")),
        (30, gettext_lazy("1 month")),
        (90, gettext_lazy("3 months")),
        (366, gettext_lazy("1 year")),
    )

    form_id = forms.UUIDField(widget=forms.HiddenInput)
    name = forms.CharField(
        max_length=60,
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"placeholder": gettext_lazy("Monthly invoices")}),
    )
    scopes = forms.MultipleChoiceField(
        choices=AccessToken.Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Permissions"),
    )
    days = forms.TypedChoiceField(
        choices=DAYS, coerce=int, initial=90, label=gettext_lazy("Expires after")
    )


class ListField(forms.Field):
    """A bounded number of texts, each in a separate field with the same name."""

    widget = forms.MultipleHiddenInput
    MOST = 200

    def to_python(self, value: Any) -> list[str]:
        texts = [str(each) for each in value or []]
        if len(texts) > self.MOST:
            raise forms.ValidationError(_("Too many actions at once."))
        return texts


class BatchForm(forms.Form):
    """One answer to several calls of a chat. `shown` has the text of each waiting card, `run` the
    ids of the ticked ones."""

    decision = forms.ChoiceField(
        choices=[
            ("run", "Run"),
            ("select", gettext_lazy("Select all")),
            ("deny", gettext_lazy("Deny all")),
        ]
    )
    chat = forms.UUIDField()
    shown = ListField()
    run = IdsField(required=False)


class ReviewForm(forms.Form):
    """A decision about a result that waits for review. `version` is the hash of what was shown."""

    decision = forms.ChoiceField(
        choices=[
            ("give", gettext_lazy("Share with the assistant")),
            ("hold", gettext_lazy("Withhold")),
        ]
    )
    reason = TypedField(required=False, max_length=REASON_CHARACTERS)
    version = forms.CharField(max_length=64)
    shown_at = forms.CharField(required=False, max_length=200)


class DayInput(forms.DateInput):
    """A date in the format of browsers."""

    input_type = "date"

    def __init__(self) -> None:
        super().__init__(format="%Y-%m-%d")


class DelegateForm(forms.Form):
    """A delegate of an approver, with the first and the last day."""

    username = forms.CharField(
        max_length=150,
        label=gettext_lazy("Username"),
        widget=forms.TextInput(attrs={"autocapitalize": "off"}),
    )
    begins_on = forms.DateField(label=gettext_lazy("First day"), widget=DayInput)
    ends_on = forms.DateField(
        label=gettext_lazy("Last day"),
        widget=DayInput,
        help_text=format_lazy(
            gettext_lazy("Days begin at midnight in the time zone {zone}."),
            zone=settings.TIME_ZONE,
        ),
    )


class ResolutionForm(forms.Form):
    """The answer to a call whose outcome is unknown."""

    verdict = forms.ChoiceField(choices=[(word, word) for word in ("worked", "did-not", "again")])
    shown_at = forms.CharField(required=False, max_length=200)
    typed = forms.CharField(required=False, max_length=300)
