"""The forms of assistants and saved prompts."""

import base64
from collections.abc import Callable
from typing import Any, TypeVar

from django import forms
from django.conf import settings
from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.signing import BadSignature, Signer
from django.db import IntegrityError
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.audit.change_entries import log_parameters
from chatapp.conversations.assistant_pictures import (
    find_limit,
    make_data_uri,
    make_picture,
    store_picture,
)
from chatapp.conversations.variables import MAX_VARIABLES, list_variables
from chatapp.forms import ListField, ParametersForm, TypedField
from chatapp.models import Assistant, Conversation, Member, Project, SavedPrompt
from chatapp.models.conversations.conversation import MAX_INSTRUCTIONS_CHARACTERS
from chatapp.models.presets.assistant import (
    DESCRIPTION_CHARACTERS,
    MAX_STARTERS,
    NAME_CHARACTERS,
    STARTER_CHARACTERS,
)
from chatapp.models.presets.saved_prompt import PROMPT_CHARACTERS, TITLE_CHARACTERS
from chatapp.models.presets.sharing import Audience, SharedRow, list_audiences
from chatapp.people.refused import Refused
from chatapp.providers.access.model_choice import choose_model
from chatapp.providers.events import ProviderError
from chatapp.providers.request import DEFAULT_EFFORT, EFFORTS, read_effort
from chatapp.rendering.sizes import format_size
from chatapp.server.request_rates import TooManyRequests, count_request
from chatapp.tools.catalogue import strip_hidden
from chatapp.views.chat.model_button import build_model_pick
from chatapp.views.chat.uploads import read_upload
from mcpconfig.models import Service

TOO_LONG = gettext_lazy("This text has %(show_value)d characters. The limit is %(limit_value)d.")
NOT_LISTED = gettext_lazy("Saved, but not in your list")
CHOICE_GONE = gettext_lazy(
    "Something that you chose was deleted meanwhile. Check your choices, then save again."
)
OWN_CHOICE = gettext_lazy("Each person chooses")
Stored = TypeVar("Stored")


def build_limited_field(most: int, **more: Any) -> TypedField:
    return TypedField(max_length=most, error_messages={"max_length": TOO_LONG}, **more)


def try_to_store(form: forms.Form, store: Callable[[], Stored]) -> Stored | None:
    """Return what `store` stores. If it is refused, or a choice was deleted meanwhile, say so in
    the form and return None."""
    try:
        return store()
    except Refused as refused:
        form.add_error(None, refused.sentence)
    except IntegrityError:
        form.add_error(None, str(CHOICE_GONE))
    return None


def clean_line(text: str) -> str:
    """Return the text on one line, without characters that nobody sees."""
    return " ".join(strip_hidden(text).split())


def clean_required_line(text: str) -> str:
    """Return the text as `clean_line` does. Refuse one that is then empty."""
    line = clean_line(text)
    if not line:
        raise forms.ValidationError(forms.Field.default_error_messages["required"], "required")
    return line


class SharedForm(forms.Form):
    """Who can use a row. A person shares with their own groups, and only admins with everyone.

    A row stays shared when its owner leaves the group or is no admin any more. To change it, they
    then have to choose again, so that nothing is unshared unseen.
    """

    who = forms.ChoiceField(label=gettext_lazy("Who can use it"))

    def __init__(
        self, *args: Any, person: Member, shared: SharedRow | None = None, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.person = person
        offered = list_audiences(person)
        self.fields["who"].choices = offered  # type: ignore[attr-defined]
        self.audiences = {value for value, _label in offered}
        # The audience of the stored row, if its owner cannot choose it any more.
        is_lost = shared is not None and self.describe_audience(shared) not in self.audiences
        self.lost_audience = self.name_audience(shared) if shared and is_lost else ""
        self.fields["who"].error_messages["invalid_choice"] = _(
            "You can’t share with this group any more. Choose again."
        )

    def read_audience(self) -> dict[str, Any]:
        """Return the fields of the row."""
        audience, _dash, group = self.cleaned_data["who"].partition("-")
        return {"audience": audience, "group_id": int(group) if group else None}

    @staticmethod
    def describe_audience(row: SharedRow) -> str:
        """Return the value of the field for this row. Without its group, it is its owner's."""
        if row.audience != Audience.GROUP:
            return str(row.audience)
        return f"{row.audience}-{row.group_id}" if row.group_id else Audience.OWNER.value

    @staticmethod
    def name_audience(row: SharedRow) -> str:
        return row.group.name if row.group else str(row.get_audience_display())

    @property
    def has_to_choose(self) -> bool:
        """Whether the value of the field is none of the choices."""
        return self["who"].value() not in self.audiences


class StartForm(forms.Form):
    """The model and the services of a saved way to start chats. Those that the person may not use
    can only be those that it had before."""

    model = forms.ChoiceField(required=False, label=gettext_lazy("Model"))
    services = forms.ModelMultipleChoiceField(Service.objects.none(), required=False)

    def limit_choices(self, person: Member, row: Assistant | Project | None) -> None:
        self.person = person
        self.kept_model = row.model if row else ""
        usable = Q(pk__in=Service.objects.for_member(person).values("pk"))
        kept = Q(pk__in=row.services.values("pk")) if row else Q(pk__in=())
        services = Service.objects.filter(usable | kept).order_by("title", "name")
        self.fields["services"].queryset = services  # type: ignore[attr-defined]
        self.usable_services = set(services.filter(usable).values_list("pk", flat=True))
        self.fields["model"].choices = self._list_models()  # type: ignore[attr-defined]
        self.fields["model"].error_messages["invalid_choice"] = _(
            "You can’t use this model. Choose another one."
        )

    def _list_models(self) -> list[Any]:
        pick = build_model_pick(self.person, self.kept_model)
        groups = [
            (provider, [(each.id, each.label) for each in models])
            for provider, models in pick.groups
        ]
        if self.kept_model and pick.offered is None:
            # The list of a chat names the group after the chat.
            groups[-1] = (str(NOT_LISTED), groups[-1][1])
        return [("", OWN_CHOICE), *groups]

    def clean_model(self) -> str:
        model: str = self.cleaned_data["model"]
        if model and model != self.kept_model:
            try:
                choose_model(model, self.person)
            except ProviderError as error:
                raise forms.ValidationError(error.message) from None
        return model

    @property
    def service_lines(self) -> list[tuple[Service, bool, bool]]:
        """Each service, whether it is chosen, and whether the person may use it."""
        value = self["services"].value() or []
        chosen = {str(getattr(each, "pk", each)) for each in value}
        services = self.fields["services"].queryset  # type: ignore[attr-defined]
        return [
            (each, str(each.pk) in chosen, each.pk in self.usable_services) for each in services
        ]


class PictureForm(forms.Form):
    """The picture of an assistant: a new one, the stored one, or none.

    A browser does not send a chosen file twice. If the form is refused because of another field,
    its next version has the picture that was made of the file, in a hidden field, signed for this
    person.
    """

    KEPT = "kept_picture"

    picture = forms.FileField(
        required=False, error_messages={"empty": gettext_lazy("The file is empty.")}
    )
    removes_picture = forms.BooleanField(required=False)

    person: Member
    row: Assistant | None

    def clean_picture(self) -> bytes:
        file = self.cleaned_data["picture"]
        if file is None:
            return b""
        try:
            count_request("uploads", str(self.person.pk), settings.UPLOADS_PER_MINUTE)
            return make_picture(read_upload(file))
        except TooManyRequests as error:
            sentence = " ".join([_("You added too many files within a minute."), error.hint])
        except Refused as refused:
            sentence = refused.sentence
        raise forms.ValidationError(sentence)

    @property
    def new_picture(self) -> bytes:
        """The picture that was chosen, with this form or an earlier version of it."""
        if not self.is_bound:
            return b""
        return self.cleaned_data.get("picture") or self._read_kept_picture()

    def _read_kept_picture(self) -> bytes:
        if self.cleaned_data.get("removes_picture"):
            return b""
        try:
            return base64.b64decode(self._signer.unsign(self.data.get(self.KEPT, "")))
        except BadSignature:
            return b""

    @property
    def _signer(self) -> Signer:
        return Signer(salt=f"picture-of-{self.person.pk}")

    @property
    def kept_picture(self) -> str:
        """The value of the hidden field."""
        data = self.new_picture
        return self._signer.sign(base64.b64encode(data).decode()) if data else ""

    @property
    def picture_address(self) -> str:
        """Where the form shows the picture from. Without one it is empty."""
        if data := self.new_picture:
            return make_data_uri(data)
        if self.row is None or not self.row.picture_hash:
            return ""
        return reverse("assistant-picture", args=[self.row.pk, self.row.picture_hash])

    @property
    def picture_limit(self) -> str:
        return format_size(find_limit())

    def save_picture(self, row: Assistant) -> None:
        if data := self.new_picture:
            store_picture(row, data)
        elif self.cleaned_data["removes_picture"]:
            store_picture(row, b"")


class AssistantForm(StartForm, ParametersForm, PictureForm, SharedForm):
    """An assistant."""

    name = forms.CharField(max_length=NAME_CHARACTERS, label=gettext_lazy("Name"))
    description = forms.CharField(
        max_length=DESCRIPTION_CHARACTERS, required=False, label=gettext_lazy("Description")
    )
    instructions = build_limited_field(
        MAX_INSTRUCTIONS_CHARACTERS, required=False, label=gettext_lazy("Instructions")
    )
    effort = forms.ChoiceField(
        required=False,
        choices=[(effort or DEFAULT_EFFORT, label) for effort, label in EFFORTS.items()],
        label=gettext_lazy("Reasoning"),
    )
    plans = forms.BooleanField(required=False)
    tools = forms.ChoiceField(
        choices=[
            ("all", gettext_lazy("All services that the person has")),
            ("chosen", gettext_lazy("Only these services")),
            ("off", gettext_lazy("No tools")),
        ],
        widget=forms.RadioSelect,
    )
    starters = ListField(required=False)

    def __init__(
        self, *args: Any, person: Member, row: Assistant | None = None, **more: Any
    ) -> None:
        more.setdefault("initial", describe_assistant(row))
        super().__init__(*args, person=person, shared=row, **more)
        self.row = row
        self.invalid_starter = 0
        self.limit_choices(person, row)

    def clean_name(self) -> str:
        return clean_required_line(self.cleaned_data["name"])

    def clean_description(self) -> str:
        return clean_line(self.cleaned_data["description"])

    def clean_instructions(self) -> str:
        text: str = self.cleaned_data["instructions"]
        check_number_of_variables(text)
        return text

    def clean_starters(self) -> list[str]:
        given = [each.replace("\r\n", "\n").strip() for each in self.cleaned_data["starters"]]
        starters = {number: each for number, each in enumerate(given, start=1) if each}
        if len(starters) > MAX_STARTERS:
            raise forms.ValidationError(
                _("An assistant has at most %(most)d starters.") % {"most": MAX_STARTERS}
            )
        for number, each in starters.items():
            self.invalid_starter = number
            if len(each) > STARTER_CHARACTERS:
                sentence = _("Starter %(number)d has %(count)s characters. The limit is %(most)s.")
                counts = {"count": intcomma(len(each)), "most": intcomma(STARTER_CHARACTERS)}
                raise forms.ValidationError(sentence % {"number": number, **counts})
            if "\x00" in each:
                sentence = _("Starter %(number)d: Null characters are not allowed.")
                raise forms.ValidationError(sentence % {"number": number})
            if (count := len(list_variables(each))) > MAX_VARIABLES:
                sentence = _("Starter %(number)d has %(count)d variables. The limit is %(most)d.")
                numbers = {"number": number, "count": count, "most": MAX_VARIABLES}
                raise forms.ValidationError(sentence % numbers)
        self.invalid_starter = 0
        return list(starters.values())

    @property
    def shown_starters(self) -> list[str]:
        """The starters of the form, and empty boxes for the others."""
        given = self.data.getlist("starters") if self.is_bound else self.initial["starters"]  # type: ignore[attr-defined]
        return [*given, *[""] * (MAX_STARTERS - len(given))]

    def save(self) -> Assistant:
        data, row = self.cleaned_data, self.row or Assistant(owner=self.person)
        Mode = Conversation.Mode
        values = {
            "name": data["name"],
            "description": data["description"],
            "instructions": data["instructions"],
            "model": data["model"],
            "effort": read_effort(data["effort"]) or "",
            "temperature": data["temperature"],
            "output_tokens": data["output_tokens"],
            "mode": Mode.PLAN if data["plans"] else Mode.ACT,
            "uses_tools": data["tools"] != "off",
            "limits_services": data["tools"] == "chosen",
            "starters": data["starters"],
            **self.read_audience(),
        }
        before = {"temperature": row.temperature, "output_tokens": row.output_tokens}
        for name, value in values.items():
            setattr(row, name, value)
        # Another request may have stored a picture since the row was read.
        row.save(update_fields=[*values, "changed_at"] if self.row else None)
        row.services.set(data["services"])
        self.save_picture(row)
        log_parameters(row, before)
        return row


def describe_assistant(row: Assistant | None) -> dict[str, Any]:
    """Return the values of the form for this assistant, or for a new one."""
    if row is None:
        return {"tools": "all", "who": Audience.OWNER, "effort": DEFAULT_EFFORT, "starters": []}
    tools = "chosen" if row.limits_services else "all"
    return {
        "name": row.name,
        "description": row.description,
        "instructions": row.instructions,
        "model": row.model,
        "effort": row.effort or DEFAULT_EFFORT,
        "temperature": row.temperature,
        "output_tokens": row.output_tokens,
        "plans": row.mode == Conversation.Mode.PLAN,
        "tools": tools if row.uses_tools else "off",
        "services": list(row.services.values_list("pk", flat=True)),
        "starters": row.starters,
        "who": SharedForm.describe_audience(row),
    }


def check_number_of_variables(text: str) -> None:
    count = len(list_variables(text))
    if count > MAX_VARIABLES:
        sentence = _("This text has %(count)d variables. The limit is %(most)d.")
        raise forms.ValidationError(sentence % {"count": count, "most": MAX_VARIABLES})


class SavedPromptForm(SharedForm):
    title = forms.CharField(max_length=TITLE_CHARACTERS, label=gettext_lazy("Title"))
    text = build_limited_field(PROMPT_CHARACTERS, label=gettext_lazy("Text"))

    def __init__(
        self, *args: Any, person: Member, row: SavedPrompt | None = None, **more: Any
    ) -> None:
        initial: dict[str, Any] = {"who": Audience.OWNER}
        if row is not None:
            initial = {"title": row.title, "text": row.text, "who": self.describe_audience(row)}
        super().__init__(*args, person=person, shared=row, initial=initial, **more)
        self.row = row

    def clean_title(self) -> str:
        return clean_required_line(self.cleaned_data["title"])

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        check_number_of_variables(text)
        return text

    def save(self) -> SavedPrompt:
        row = self.row or SavedPrompt(owner=self.person)
        row.title, row.text = self.cleaned_data["title"], self.cleaned_data["text"]
        for name, value in self.read_audience().items():
            setattr(row, name, value)
        row.save()
        return row
