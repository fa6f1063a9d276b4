"""The sentences of policy: why a tool is risky, and why a call asks, runs or is refused.

They are stored in English and translated when they are shown, because the reader of a call may use
another language than the person for whom it ran."""

import re
from collections.abc import Mapping

from django.utils.translation import gettext

from chatapp.permissions.risk_vocabulary import Effect


def gettext_noop(message: str) -> str:
    """Mark a message for translation. Django's function of this name needs settings, and this
    package can be imported without any."""
    return message


# Evidence for a risk.
NAME_SAYS: Mapping[Effect, str] = {
    "reads": gettext_noop("The tool’s name suggests that it only reads."),
    "changes": gettext_noop("The tool’s name suggests that it changes something."),
    "sends": gettext_noop("The tool’s name suggests that it sends something to others."),
    "controls": gettext_noop("The tool’s name suggests that it starts or stops something."),
    "removes": gettext_noop("The tool’s name suggests that it removes something."),
    "creates": gettext_noop("The tool’s name suggests that it creates something."),
    "operates": gettext_noop("The tool’s name suggests that it acts on a live system."),
    "deletes": gettext_noop("The tool’s name suggests that it deletes data."),
    "runs": gettext_noop("The tool’s name suggests that it runs or restarts something."),
    "access": gettext_noop("The tool’s name suggests that it changes access rights."),
    "money": gettext_noop("The tool’s name suggests that it moves money."),
}
DESCRIPTION_SAYS: Mapping[Effect, str] = {
    "reads": gettext_noop("The description says it only reads."),
    "changes": gettext_noop("The description says it changes something."),
    "sends": gettext_noop("The description says it sends something to others."),
    "controls": gettext_noop("The description says it starts or stops something."),
    "removes": gettext_noop("The description says it removes something."),
    "creates": gettext_noop("The description says it creates something."),
    "operates": gettext_noop("The description says it acts on a live system."),
    "deletes": gettext_noop("The description says it deletes data."),
    "runs": gettext_noop("The description says it runs or restarts something."),
    "access": gettext_noop("The description says it changes access rights."),
    "money": gettext_noop("The description says it moves money."),
}
ACTIONS_SAY: Mapping[Effect, str] = {
    "reads": gettext_noop("All of its actions only read."),
    "changes": gettext_noop("One of its actions changes something."),
    "sends": gettext_noop("One of its actions sends something to others."),
    "controls": gettext_noop("One of its actions starts or stops something."),
    "removes": gettext_noop("One of its actions removes something."),
    "creates": gettext_noop("One of its actions creates something."),
    "operates": gettext_noop("One of its actions acts on a live system."),
    "deletes": gettext_noop("One of its actions deletes data."),
    "runs": gettext_noop("One of its actions runs or restarts something."),
    "access": gettext_noop("One of its actions changes access rights."),
    "money": gettext_noop("One of its actions moves money."),
}
NAME_SAYS_NOTHING = gettext_noop("The name doesn’t say what it does.")
NAME_MIXES_ALPHABETS = gettext_noop("The name mixes letters from different alphabets.")
NAME_HOLDS_RISKY_VERB = gettext_noop("The name contains a risky verb.")
NAME_IN_UNKNOWN_SCRIPT = gettext_noop("The name is in an unknown script.")
NAME_HOLDS_SECOND_ACTION = gettext_noop("The name contains a second, unknown action.")
NAME_MENTIONS_GRAVE_OBJECT = gettext_noop(
    "The name combines an unknown action with access, money or live systems."
)
DESCRIPTION_WARNS = gettext_noop("The description warns of possible harm.")
DESCRIPTION_SAYS_ALSO_CHANGES = gettext_noop("The description says it also changes something.")
DESCRIPTION_SAYS_DELETED = gettext_noop("The description says something is deleted.")
DESCRIPTION_IN_UNKNOWN_SCRIPT = gettext_noop("The description is in an unknown script.")
TAKES_SQL = gettext_noop("It accepts any SQL statement.")
TAKES_COMMAND = gettext_noop("It accepts any command.")
TAKES_CODE = gettext_noop("It accepts any code.")
TAKES_ACTION = gettext_noop("It accepts any action by name.")
SENDS_ANY_REQUEST = gettext_noop("It can send any request to any address.")
ARGUMENT_DELETES = gettext_noop("One of its arguments can make it delete something.")
ARGUMENT_CHANGES = gettext_noop("One of its arguments can make it change something.")
SERVICE_SAYS_SQL_READS = gettext_noop("The service says its SQL is read-only.")
SERVICE_SAYS_DESTRUCTIVE = gettext_noop("The service says it may be destructive.")
SERVICE_SAYS_CHANGES = gettext_noop("The service says it is not read-only.")
TRUSTED_SERVICE_SAYS_READS = gettext_noop(
    "The service says it only reads, and an admin trusts this service."
)
UNREADABLE_SCHEMA = gettext_noop("Its input schema can’t be read.")
UNREADABLE_HINTS = gettext_noop("The tool’s annotations can’t be read.")
NOT_ASSESSED = gettext_noop("Its risk could not be assessed.")
UNKNOWN_TOOL_IS_HIGH = gettext_noop("The tool is unknown, so its risk counts as high.")
SET_BY_ADMIN = gettext_noop("An admin set this risk.")
SET_TO_UNKNOWN = gettext_noop("An admin set a risk that does not exist.")
SECOND_OPINION = gettext_noop("Second opinion of %(model)s: %(reason)s")
TAINTED = gettext_noop("Before this call, the answer read untrusted content from “%(service)s”.")

# Decisions.
TURNED_OFF = gettext_noop("Refused because an admin turned off this tool or its service.")
NOT_IN_PLAN_MODE = gettext_noop(
    "Refused because plan mode is on and this tool does more than read."
)
FORBIDDEN_BY_RULE = gettext_noop("Refused because an admin rule forbids it.")
PERSON_INACTIVE = gettext_noop("Refused because this person’s account is not active.")
ONLY_FOR_ADMINS = gettext_noop("Refused because only admins can use this tool.")
NO_POLICY = gettext_noop("Needs approval because the policy could not be applied.")
ASKED_BY_RULE = gettext_noop("Needs approval because of an admin rule.")
EVERYTHING_ASKS = gettext_noop(
    "Needs approval because an admin requires it for every tool at the moment."
)
UNREADABLE_ARGUMENTS = gettext_noop("Needs approval because the arguments can’t be read.")
UNKNOWN_TOOL = gettext_noop("Needs approval because this tool is unknown.")
UNCONFIRMED = gettext_noop(
    "Needs approval because no admin has confirmed the current version of this tool."
)
TOOL_CHANGED = gettext_noop("The tool changed after policy allowed this call.")
SAME_CALL = gettext_noop(
    "Needs approval because the same call was already made %(times)s times for this message."
)
USED_ONCE_TODAY = gettext_noop(
    "Needs approval because you used this tool once today (UTC). Daily limit: %(limit)s."
)
USED_TODAY = gettext_noop(
    "Needs approval because you used this tool %(times)s times today (UTC). Daily limit: %(limit)s."
)
NEEDS_TWO: Mapping[str, str] = {
    "low": gettext_noop("Needs two approvals because the risk is low."),
    "medium": gettext_noop("Needs two approvals because the risk is medium."),
    "high": gettext_noop("Needs two approvals because the risk is high."),
}
NEEDS_APPROVAL: Mapping[str, str] = {
    "low": gettext_noop("Needs approval because the risk is low."),
    "medium": gettext_noop("Needs approval because the risk is medium."),
    "high": gettext_noop("Needs approval because the risk is high."),
}
SENDS_TO_ADDRESS = gettext_noop(
    "Needs approval because the answer read untrusted content from “%(service)s”. This call sends "
    "data to an address that the content may have chosen: %(names)s."
)
SENDS_TO_RECIPIENT = gettext_noop(
    "Needs approval because the answer read untrusted content from “%(service)s”. This call sends "
    "data to a recipient that the content may have chosen: %(names)s."
)
SENDS_TO_SEARCH = gettext_noop(
    "Needs approval because the answer read untrusted content from “%(service)s”. This call sends "
    "more than a few words to a web search, which the content may have asked for: %(names)s."
)
TAINTED_DESPITE_CONSENT = gettext_noop(
    "Needs approval although you allowed this tool in advance. Before this call, the answer read "
    "untrusted content from “%(service)s”."
)
ALLOWED_IN_ADVANCE = gettext_noop("Runs because you allowed this tool in advance.")
ALLOWED_BY_RULE = gettext_noop("Runs because an admin rule allows it.")
RUNS: Mapping[str, str] = {
    "low": gettext_noop("Runs because the risk is low and an admin has confirmed this tool."),
    "medium": gettext_noop("Runs because the risk is medium and an admin has confirmed this tool."),
    "high": gettext_noop("Runs because the risk is high and an admin has confirmed this tool."),
}

# Sentences of an earlier version, which rows of that time still hold.
_NAME_SUGGESTS, _NAME_SAID = "The tool’s name suggests that it ", "The name says it "
_RENAMED: Mapping[str, str] = {
    **{text.replace(_NAME_SUGGESTS, _NAME_SAID): text for text in NAME_SAYS.values()},
    "The name says it deletes.": NAME_SAYS["deletes"],
    "The description says it deletes.": DESCRIPTION_SAYS["deletes"],
    "One of its actions deletes.": ACTIONS_SAY["deletes"],
}

_WITH_VALUES = (
    SECOND_OPINION,
    TAINTED,
    SAME_CALL,
    USED_ONCE_TODAY,
    USED_TODAY,
    SENDS_TO_ADDRESS,
    SENDS_TO_RECIPIENT,
    SENDS_TO_SEARCH,
    TAINTED_DESPITE_CONSENT,
)
_PLACEHOLDER = re.compile(r"%\\\((\w+)\\\)s|%\((\w+)\)s")


def build_pattern(template: str) -> re.Pattern[str]:
    escaped = _PLACEHOLDER.sub(r"(?P<\1\2>.+)", re.escape(template))
    return re.compile(escaped, re.DOTALL)


_PATTERNS = tuple((template, build_pattern(template)) for template in _WITH_VALUES)


def split_reason(text: str) -> tuple[str, Mapping[str, str]]:
    """Return the template of a stored reason, and the values that were filled in. A reason that
    this version does not know is its own template."""
    text = _RENAMED.get(text, text)
    for template, pattern in _PATTERNS:
        if found := pattern.fullmatch(text):
            return template, found.groupdict()
    # Rows of an earlier version have straight apostrophes.
    return text.replace("'", "’"), {}


def write_opinion(model: str, reason: str) -> str:
    return SECOND_OPINION % {"model": model, "reason": reason}


def is_opinion(text: str) -> bool:
    """Return whether a stored reason is that of a second opinion."""
    return split_reason(text)[0] == SECOND_OPINION


def hide_names(text: str) -> str:
    """Return a stored reason without the names of arguments in it, which the model may have
    written."""
    template, values = split_reason(text)
    return template % {**values, "names": "…"} if "names" in values else text


def translate_reason(text: str) -> str:
    """Return a stored reason in the reader's language, or as it is if it has no translation."""
    template, values = split_reason(text)
    if not template:
        return ""
    return gettext(template) % values if values else gettext(template)
