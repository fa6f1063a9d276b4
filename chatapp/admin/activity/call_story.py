"""The story of one tool call: why it asked, ran or was refused, who answered, what was sent
and received. The text of the chat is left out for an admin who gave no reason to read it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.admin.badges import EMPTY, describe_seconds
from chatapp.admin.policy.who_can import OWN
from chatapp.admin.reason_texts import translate_for_admin
from chatapp.models import Approval, Consent, LogEntry, Member, Review, Step, ToolCall
from chatapp.models.policy.policy import LEVEL_LABELS
from chatapp.permissions import reasons
from chatapp.permissions.check_order import CHECKS, Check, find_check
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.secret_mask import mask_secrets, mask_secrets_in_json
from chatapp.rendering.stored_sentences import translate_stored

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

State = ToolCall.State

CHECK_TITLES: "dict[Check, StrOrPromise]" = {
    "switch": _lazy("Tool and service"),
    "refusing_rules": _lazy("Rules that refuse"),
    "plan_mode": _lazy("Plan mode"),
    "asking_rules": _lazy("Rules that ask"),
    "doubt": _lazy("Definition and call"),
    "daily_limit": _lazy("Daily limit"),
    "two_approvals": _lazy("Second approval"),
    "destinations": _lazy("Destinations"),
    "permissions": _lazy("Permissions"),
    "allowing_rules": _lazy("Rules that allow"),
    "risk": _lazy("Risk"),
}
# What a check found that let the call go on to the next one.
PASSED: "dict[Check, StrOrPromise]" = {
    "switch": _lazy("Switched on."),
    "refusing_rules": _lazy("No rule refused the call."),
    "plan_mode": _lazy("The chat was not in plan mode, or the tool only reads."),
    "asking_rules": _lazy("No rule asked."),
    "doubt": _lazy("An admin had confirmed this definition, and the arguments could be read."),
    "daily_limit": _lazy("Within the limit, or there was none."),
    "two_approvals": _lazy(
        "The policy for everybody did not require a second approval, or a rule allowed the call."
    ),
    "destinations": _lazy(
        "No untrusted content had come in before, or the call sent nothing to an address that the "
        "policy does not allow."
    ),
    "permissions": _lazy("No permission of the member covered this call."),
    "allowing_rules": _lazy("No rule allowed the call."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckLine:
    """One check. `state` is "passed", "decides" or "later"."""

    title: str
    found: str
    state: str
    result: str
    address: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One thing that happened. `wait` says for how long and for whom the call then waited."""

    at: datetime | None
    icon: str
    title: str
    text: str = ""
    quote: SafeString | str = ""
    wait: str = ""
    tone: str = ""
    values: tuple[tuple[str, SafeString], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    icon: str
    title: str
    text: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    title: str
    tone: str
    answer: SafeString | str
    note: str
    checks: tuple[CheckLine, ...]
    moments: tuple[Moment, ...]
    facts: tuple[tuple[str, str], ...]
    links: tuple[Link, ...]
    total: str


def build_story(call: ToolCall, reader: Member, *, may_read: bool) -> Story:
    """Return the story of the call. `may_read`: whether the reader may see what the chat says."""
    approval: Approval | None = getattr(call, "approval", None)
    decider = find_check(call.why)
    outcome = _name_outcome(call, approval)
    return Story(
        title=str(TITLES[outcome]),
        tone=TONES[outcome],
        answer=_describe_decision(call, approval, decider, reader, may_read=may_read),
        note=call.note,
        checks=tuple(_list_checks(call, decider, reader, may_read=may_read)),
        moments=tuple(_list_moments(call, approval, outcome, may_read=may_read)),
        facts=tuple(_list_facts(call, approval)),
        links=tuple(_list_links(call, reader, may_read=may_read)),
        total=_describe_total(call),
    )


TITLES: "dict[str, StrOrPromise]" = {
    "asked": _lazy("Why it asked"),
    "ran": _lazy("Why it ran without asking"),
    "refused": _lazy("Why it was refused"),
    "none": _lazy("Why there was no decision"),
}
TONES = {"asked": "medium", "ran": "low", "refused": "high", "none": ""}


def _name_outcome(call: ToolCall, approval: Approval | None) -> str:
    if approval is not None:
        return "asked"
    if not call.risk:
        return "none"
    return "refused" if call.state == State.REFUSED else "ran"


# --- why -----------------------------------------------------------------------------------------
def _describe_decision(
    call: ToolCall,
    approval: Approval | None,
    decider: Check | None,
    reader: Member,
    *,
    may_read: bool,
) -> SafeString | str:
    if not call.risk:
        return _("The call ended before the policy checked it.")
    if call.rule is not None and decider in RULE_SENTENCES:
        rule: Any = call.rule.name
        if reader.has_perm("chatapp.view_policyrule"):
            address = reverse("admin:chatapp_policyrule_change", args=[call.rule_id])
            rule = format_html('<a href="{}">{}</a>', address, call.rule.name)
        sentence = format_html(str(RULE_SENTENCES[decider]), rule=rule)
        return format_html("{} {}", sentence, _describe_signers(approval)) if approval else sentence
    if decider == "permissions" and call.consent is not None:
        return _describe_permission(call, call.consent, reader)
    why = _translate_why(call, may_read=may_read)
    return f"{why} {_describe_signers(approval)}".strip() or EMPTY


RULE_SENTENCES: "dict[Check, StrOrPromise]" = {
    "refusing_rules": _lazy("The rule {rule} refuses this call."),
    "asking_rules": _lazy("The rule {rule} matched. It asks every time."),
    "allowing_rules": _lazy("The rule {rule} allows this call."),
}


def _describe_permission(call: ToolCall, consent: Consent, reader: Member) -> SafeString | str:
    """Return which permission covered the call: whose, for what, since when, and if it ended."""
    owner = call.turn.conversation.owner
    person: Any = owner.display_name
    if reader.has_perm("chatapp.view_member"):
        address = reverse("admin:chatapp_member_person", args=[owner.pk])
        person = format_html('<a href="{}">{}</a>', address, owner.display_name)
    given = format_html(
        _("{person} gave permission in advance on {time}: {scope}."),
        person=person,
        time=_write_time(consent.created_at),
        scope=consent.get_scope_display(),
    )
    if consent.revoked_at is None:
        return given
    revoked = _("This permission was revoked on %(time)s.")
    return format_html("{} {}", given, revoked % {"time": _write_time(consent.revoked_at)})


def _write_time(moment: datetime) -> str:
    return date_format(localtime(moment), "DATETIME_FORMAT")


def _describe_signers(approval: Approval | None) -> str:
    if approval is None or approval.second is None:
        return ""
    return _("It needs two approvals: first of the member, then of %(second)s.") % {
        "second": approval.second.name
    }


def _translate_why(call: ToolCall, *, may_read: bool) -> str:
    """Return why policy decided so, without what the model wrote if the reader gave no reason."""
    why = call.why if may_read else hide_reason(call.why)
    return translate_for_admin(why, call.turn.conversation.owner.display_name)


# Reasons that belong to no check.
KNOWN = frozenset((reasons.NO_POLICY, reasons.TOOL_CHANGED))
HIDDEN_REASON = _lazy("The reason is shown after you open the values.")


def hide_reason(why: str) -> str:
    """Return a stored reason of policy without what the model may have written."""
    if why and find_check(why) is None and why not in KNOWN:
        # A reason of an unknown form may repeat something of the chat.
        return str(HIDDEN_REASON)
    return reasons.hide_names(why)


def _list_checks(
    call: ToolCall, decider: Check | None, reader: Member, *, may_read: bool
) -> Iterator[CheckLine]:
    if decider is None:
        if call.risk:
            yield CheckLine(
                title=str(CHECK_TITLES["risk"]),
                found=_describe_risk(call),
                state="passed",
                result="",
            )
        return
    place = CHECKS.index(decider)
    for index, check in enumerate(CHECKS):
        if index < place:
            found = _describe_risk(call) if check == "risk" else str(PASSED[check])
            yield CheckLine(
                title=str(CHECK_TITLES[check]), found=found, state="passed", result=_("continued")
            )
        elif index == place:
            yield _describe_decider(call, check, reader, may_read=may_read)
    if later := [str(CHECK_TITLES[check]) for check in CHECKS[place + 1 :]]:
        yield CheckLine(
            title=_("Not reached"), found=" · ".join(later), state="later", result=_("not needed")
        )


def _describe_decider(call: ToolCall, check: Check, reader: Member, *, may_read: bool) -> CheckLine:
    address = name = ""
    if call.rule is not None and check in RULE_SENTENCES:
        name = _("%(name)s (rule %(number)s)") % {"name": call.rule.name, "number": call.rule_id}
        if reader.has_perm("chatapp.view_policyrule"):
            address = reverse("admin:chatapp_policyrule_change", args=[call.rule_id])
    found = _describe_risk(call)
    if check != "risk":
        found = _translate_why(call, may_read=may_read)
    results = {
        "asked": _("decided: asked"),
        "ran": _("decided: ran"),
        "refused": _("decided: refused"),
        "none": _("decided"),
    }
    outcome = _name_outcome(call, getattr(call, "approval", None))
    return CheckLine(
        title=str(CHECK_TITLES[check]),
        found=found,
        state="decides",
        result=results[outcome],
        address=address,
        name=name,
    )


def _describe_risk(call: ToolCall) -> str:
    level = capfirst(str(LEVEL_LABELS.get(call.risk, call.risk)))
    known = " ".join(map(reasons.translate_reason, call.reasons))
    return f"{level}. {known}".strip()


# --- what happened -------------------------------------------------------------------------------
def _list_moments(
    call: ToolCall, approval: Approval | None, outcome: str, *, may_read: bool
) -> Iterator[Moment]:
    person, turn = call.turn.conversation.owner.display_name, call.turn
    step = Step.objects.filter(turn=turn, number=call.step).first()
    if not turn.is_direct:
        yield Moment(
            at=turn.created_at,
            icon="chat",
            title=_("%(person)s asked") % {"person": person},
            quote=_read_question(call) if may_read else "",
        )
        yield Moment(
            at=step.finished_at if step else None,
            icon="model",
            title=_("%(model)s requested the call") % {"model": turn.model},
            text=_("Step %(number)s of this answer.") % {"number": call.step},
        )
    else:
        yield Moment(
            at=turn.created_at,
            icon="chat",
            title=_("A program of %(person)s requested the call") % {"person": person},
        )
    decided_at = approval.created_at if approval else (step.finished_at if step else None)
    titles = {
        "asked": _("Policy: needs approval"),
        "ran": _("Policy: runs without asking"),
        "refused": _("Policy: refused"),
        "none": _("Not checked by policy"),
    }
    if approval is not None and approval.second is not None:
        titles["asked"] = _("Policy: needs two approvals")
    yield Moment(
        at=decided_at,
        icon="shield",
        title=titles[outcome],
        tone=TONES[outcome],
        wait=_describe_first_wait(approval, person) if approval else "",
    )
    if approval is not None:
        yield from _list_answers(call, approval, may_read=may_read)
    yield from _list_outcome(call, may_read=may_read)


def _read_question(call: ToolCall) -> SafeString:
    texts = call.turn.question.parts.filter(kind="text").values_list("text", flat=True)
    text = "\n".join(texts)
    return draw_hidden(text if len(text) <= QUOTE_CHARACTERS else f"{text[:QUOTE_CHARACTERS]}…")


QUOTE_CHARACTERS = 600


def _describe_first_wait(approval: Approval, person: str) -> str:
    until = approval.first_at or approval.decided_at
    if until is None:
        return _("Waits for %(person)s") % {"person": person}
    return _("Waited %(time)s for %(person)s") % {
        "time": _measure(approval.created_at, until),
        "person": person,
    }


def _list_answers(call: ToolCall, approval: Approval, *, may_read: bool) -> Iterator[Moment]:
    second = approval.second
    changed = _describe_edit(call) if may_read else ()
    edited = bool(call.asked_arguments)
    if second is not None and approval.first_at is not None:
        wait = _("Waits for %(who)s") % {"who": second.name}
        if approval.decided_at is not None:
            wait = _("Waited %(time)s for %(person)s") % {
                "time": _measure(approval.first_at, approval.decided_at),
                "person": second.name,
            }
        title = (
            _("%(person)s edited values and approved first")
            if edited
            else _("%(person)s approved first")
        )
        yield Moment(
            at=approval.first_at,
            icon="edit" if edited else "check",
            title=title % {"person": _name(approval.first_by)},
            wait=wait,
            values=changed,
        )
    if approval.state == Approval.State.OPEN:
        return
    title, tone, icon = _name_answer(approval, edited=edited and approval.first_at is None)
    yield Moment(
        at=approval.decided_at,
        icon=icon,
        title=title % {"person": _name(approval.decided_by)},
        text=_("On behalf of %(person)s.") % {"person": _name(approval.signed_for)}
        if approval.signed_for
        else "",
        tone=tone,
        quote=draw_hidden(approval.reason) if may_read and approval.reason else "",
        values=() if approval.first_at else changed,
    )


def _name_answer(approval: Approval, *, edited: bool) -> tuple[str, str, str]:
    match approval.state:
        case Approval.State.GRANTED if approval.first_at is not None:
            return _("%(person)s gave the second approval"), "low", "two"
        case Approval.State.GRANTED if edited:
            return _("%(person)s edited values and approved"), "low", "edit"
        case Approval.State.GRANTED:
            return _("%(person)s approved"), "low", "check"
        case Approval.State.DENIED:
            return _("%(person)s denied it"), "high", "no"
        case Approval.State.EXPIRED:
            return _("Expired: no one decided in time"), "high", "clock"
    return _("Withdrawn: the answer ended or went on without it"), "", "dash"


def _describe_edit(call: ToolCall) -> tuple[tuple[str, SafeString], ...]:
    if not call.asked_arguments:
        return ()
    return (
        (_("Before the edit"), _draw_json(call.asked_arguments)),
        (_("After the edit"), _draw_json(call.arguments)),
    )


def _list_outcome(call: ToolCall, *, may_read: bool) -> Iterator[Moment]:
    if call.sent_at is not None:
        service = call.service or _("a built-in tool")
        title = _("Sent to %(service)s") % {"service": service}
        if call.seconds is not None:
            title = _("Sent to %(service)s, over after %(time)s") % {
                "service": service,
                "time": _write_seconds(call.seconds),
            }
        yield Moment(at=call.sent_at, icon="send", title=title, values=_list_values(call, may_read))
    elif may_read and (values := _list_unsent_values(call)):
        yield Moment(
            at=None,
            icon="file",
            title=_("Not sent"),
            values=values,
        )
    if call.state == State.UNKNOWN or call.resolved_at:
        yield Moment(
            at=call.resolved_at,
            icon="alert",
            title=_("%(person)s said what the outcome was") % {"person": _name(call.resolved_by)}
            if call.resolved_by
            else _("The outcome is unknown"),
            tone="high",
        )
    review: Review | None = getattr(call, "review", None)
    if review is not None:
        yield Moment(
            at=review.decided_at, icon="shield", title=str(capfirst(review.get_state_display()))
        )
    if call.finished_at is not None:
        is_good = call.state == State.SUCCEEDED
        yield Moment(
            at=call.finished_at,
            icon="check" if is_good else "no",
            title=_("The result went to the model")
            if is_good
            else str(capfirst(str(call.get_state_display()))),
            tone="low" if is_good else "high",
            text=_("It has untrusted content from “%(service)s”.") % {"service": call.tainted_by}
            if call.tainted_by
            else "",
        )


def _list_values(call: ToolCall, may_read: bool) -> tuple[tuple[str, SafeString], ...]:
    if not may_read:
        return ()
    values = [(_("Sent"), _draw_json(call.arguments))]
    result = call.result if call.result is not None else call.error
    if result is not None:
        shown = translate_error(result) if call.result is None else result
        values.append((_("Received"), _draw_json(json.dumps(shown, ensure_ascii=False))))
    return tuple(values)


def _list_unsent_values(call: ToolCall) -> tuple[tuple[str, SafeString], ...]:
    """Return the arguments, unless the edit before shows them, and why the call was not sent."""
    values = []
    if not (call.asked_arguments and getattr(call, "approval", None)):
        values.append((_("Arguments"), _draw_json(call.arguments)))
    if call.error is not None:
        error = json.dumps(translate_error(call.error), ensure_ascii=False)
        values.append((_("Error"), _draw_json(error)))
    return tuple(values)


def translate_error(error: dict[str, Any]) -> dict[str, Any]:
    return {
        name: translate_stored(text) if isinstance(text, str) else text
        for name, text in error.items()
    }


def _draw_json(text: str) -> SafeString:
    """Return the JSON in lines, with secrets as dots and hidden characters visible."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return draw_hidden(mask_secrets_in_json(text))
    return draw_hidden(json.dumps(mask_secrets(values), indent=2, ensure_ascii=False))


# --- beside it -----------------------------------------------------------------------------------
def _list_facts(call: ToolCall, approval: Approval | None) -> Iterator[tuple[str, str]]:
    yield _("Call"), str(call.pk)[:8]
    if approval is None:
        yield _("Asked"), _("no")
    else:
        yield _("Asked"), _("yes, two people") if approval.second_id else _("yes")
        if approval.first_at is not None:
            time = _measure(approval.created_at, approval.first_at)
            yield _("First answer"), f"{_name(approval.first_by)}, {time}"
            if approval.decided_at is not None:
                time = _measure(approval.first_at, approval.decided_at)
                yield _("Second answer"), f"{_name(approval.decided_by)}, {time}"
        elif approval.decided_at is not None:
            time = _measure(approval.created_at, approval.decided_at)
            yield _("Answer"), f"{_name(approval.decided_by)}, {time}"
    if call.seconds is not None:
        yield _("Ran for"), _write_seconds(call.seconds)
    yield _("Attempts"), str(call.attempt)


def _list_links(call: ToolCall, reader: Member, *, may_read: bool) -> Iterator[Link]:
    conversation = call.turn.conversation_id
    if reader.has_perm("chatapp.view_conversation"):
        owner = call.turn.conversation.owner.display_name
        yield Link(
            icon="chat",
            title=_("Chat"),
            text=_("You may read it now")
            if may_read
            else _("Needs a reason; %(person)s sees it") % {"person": owner},
            address=reverse("admin:chatapp_conversation_change", args=[conversation]),
        )
    if reader.has_perm("chatapp.view_turn"):
        yield Link(
            icon="activity",
            title=_("Turn"),
            text=_("All steps and calls of this answer"),
            address=reverse("admin:chatapp_turn_change", args=[call.turn_id]),
        )
    if call.service_id is not None and reader.has_perm("mcpconfig.view_exchange"):
        yield Link(
            icon="trace",
            title=_("Trace"),
            text=_("The requests of this call and their answers"),
            address=reverse("admin:mcpconfig_exchange_changelist")
            + f"?service__id__exact={call.service_id}&round_id={call.pk}",
        )
    if reader.has_perm("chatapp.view_logentry"):
        entries = LogEntry.objects.filter(conversation_id=conversation, call_id=call.pk)
        positions = list(entries.order_by("position").values_list("position", flat=True))
        text = _("None")
        if positions:
            text = _("%(first)s to %(last)s") % {"first": positions[0], "last": positions[-1]}
        yield Link(
            icon="file",
            title=_("Log entries"),
            text=text,
            address=reverse("admin:chatapp_logentry_changelist")
            + f"?conversation_id={conversation}&call_id={call.pk}",
        )
    if address := _get_try_address(call, reader):
        yield Link(
            icon="send",
            title=_("Replay in Try it"),
            text=_("Opens the form with these values. It sends nothing"),
            address=address,
        )
    if call.definition_id is not None and reader.has_perm("mcpconfig.view_tooldefinition"):
        yield Link(
            icon="tools",
            title=_("Tool definition"),
            text=_("As the service described it then"),
            address=reverse("admin:mcpconfig_tooldefinition_change", args=[call.definition_id]),
        )
    may_look_up = reader.has_perms(("chatapp.view_policyrule", "chatapp.view_member"))
    place = OWN if call.is_core else call.service_id
    if place is not None and may_look_up:
        yield Link(
            icon="people",
            title=_("Who can run this?"),
            text=_("By group and by member"),
            address=reverse("admin:policy_who_can")
            + f"?{urlencode({'service': place, 'tool': call.tool_name})}",
        )


def _get_try_address(call: ToolCall, reader: Member) -> str:
    """Return the form to try the tool as it is now, with the values of this call."""
    if call.service is None or not reader.has_perm("mcpconfig.change_service"):
        return ""
    tools = call.service.definitions.filter(name=call.tool_name, is_current=True)
    definition = tools.values_list("hash", flat=True).first()
    if definition is None:
        return ""
    address = reverse("admin:mcpconfig_service_try", args=[call.service_id, definition])
    return f"{address}?{urlencode({'call': call.pk})}"


def _name(person: Member | None) -> str:
    return person.display_name if person is not None else EMPTY


def _describe_total(call: ToolCall) -> str:
    if call.finished_at is None:
        return ""
    return _("%(time)s in total") % {"time": _measure(call.turn.created_at, call.finished_at)}


def _measure(since: datetime, until: datetime) -> str:
    return _write_seconds(max((until - since).total_seconds(), 0.0))


MINUTE, HOUR, DAY = 60, 3_600, 86_400


def _write_seconds(seconds: float) -> str:
    """Return a duration that people read at a glance: 0.8 s, 5 min 40 s, 2 h 10 min, 3 d 4 h."""
    whole = round(seconds)
    if whole < MINUTE:
        return describe_seconds(seconds)
    if whole < HOUR:
        return _("%(minutes)s min %(seconds)s s") % {
            "minutes": whole // MINUTE,
            "seconds": whole % MINUTE,
        }
    if whole < DAY:
        values = {"hours": whole // HOUR, "minutes": whole % HOUR // MINUTE}
        return _("%(hours)s h %(minutes)s min") % values
    return _("%(days)s d %(hours)s h") % {"days": whole // DAY, "hours": whole % DAY // HOUR}
