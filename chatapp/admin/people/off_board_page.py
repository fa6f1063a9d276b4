"""The page that off-boards a member: first what will end, then one button."""

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.accounts import off_boarding
from chatapp.admin.activity.chat_reasons import MAX_REASON_CHARACTERS
from chatapp.models import Member
from chatapp.people.admin_rights import VIEW_CHATS
from chatapp.people.refused import Refused

from .person_page import find_person

KEEP, HAND_OVER = "keep", "hand_over"


class OffBoardingForm(forms.Form):
    """Names are typed, so that the page stays small with thousands of members."""

    new_owner = forms.CharField(
        label=_lazy("New owner of the projects (username)"),
        required=False,
        max_length=150,
        help_text=_lazy(
            "If empty, each project goes to the member who has edited it longest. A project that "
            "nobody else edits stays as it is."
        ),
    )
    chats = forms.ChoiceField(
        label=_lazy("What happens to the chats?"),
        choices=[
            (KEEP, _lazy("Keep them. Nobody can open them without a reason.")),
            (HAND_OVER, _lazy("Hand them over. The new owner can read and continue them.")),
        ],
        initial=KEEP,
        widget=forms.RadioSelect,
    )
    reader = forms.CharField(
        label=_lazy("New owner of the chats (username)"), required=False, max_length=150
    )
    reason = forms.CharField(
        label=_lazy("Reason to hand them over"),
        required=False,
        max_length=MAX_REASON_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(self, *args: Any, member: Member, may_hand_over: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.member = member
        if not may_hand_over:
            for name in ("chats", "reader", "reason"):
                del self.fields[name]

    def clean_new_owner(self) -> Member | None:
        return self._find(self.cleaned_data["new_owner"])

    def clean_reader(self) -> Member | None:
        return self._find(self.cleaned_data["reader"])

    def _find(self, name: str) -> Member | None:
        if not name.strip():
            return None
        found = Member.objects.filter(username=name.strip(), is_active=True).first()
        if found is None or found == self.member:
            text = _("There is no other active member named “%(name)s”.")
            raise forms.ValidationError(text % {"name": name.strip()})
        return found

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if values.get("chats") == HAND_OVER:
            if "reader" in values and values["reader"] is None:
                self.add_error("reader", _("Enter who gets the chats."))
            if not values.get("reason", "").strip():
                self.add_error("reason", _("Enter a reason."))
        return values


def show_off_boarding(pages: Any, request: HttpRequest, pk: int) -> HttpResponse:
    """Show what will end. The button ends it, after a check of the rights at that time."""
    member = find_person(pages, request, pk)
    actor = cast(Member, request.user)
    if not pages.has_change_permission(request, member):
        raise PermissionDenied
    form = OffBoardingForm(
        request.POST or None, member=member, may_hand_over=actor.has_perm(VIEW_CHATS)
    )
    problem = ""
    # The form of an admin without rights to chats may be empty.
    if request.method == "POST" and form.is_valid():
        try:
            return _off_board(request, member, actor, form.cleaned_data)
        except Refused as refused:
            problem = refused.sentence
    context = {
        **admin.site.each_context(request),
        "opts": pages.opts,
        "title": _("Off-board %(person)s") % {"person": member.display_name},
        "person": member,
        "lines": off_boarding.list_lines(member),
        "form": form,
        "problem": problem,
        "is_again": not member.is_active,
    }
    status = 422 if request.method == "POST" else 200
    template = "admin/chatapp/member/off_board.html"
    return TemplateResponse(request, template, context, status=status)


def _off_board(
    request: HttpRequest, member: Member, actor: Member, values: dict[str, Any]
) -> HttpResponse:
    hands_over = values.get("chats") == HAND_OVER
    choices = off_boarding.Choices(
        by=actor,
        new_owner=values["new_owner"],
        reader=values["reader"] if hands_over else None,
        reason=values["reason"].strip() if hands_over else "",
    )
    failed = off_boarding.off_board(member, choices)
    name = {"person": member.display_name}
    if failed:
        left = "; ".join(
            step.describe(count)
            for step in off_boarding.STEPS
            if step.name in failed and (count := step.count(member))
        )
        text = _("%(person)s is locked out, but this is left: %(left)s. Off-board again to finish.")
        messages.error(request, text % {**name, "left": left or ", ".join(failed)})
    else:
        messages.success(request, _("%(person)s is off-boarded.") % name)
    return redirect("admin:chatapp_member_person", member.pk)
