"""Sentences that are stored in English, because the model or the log reads them too, as a person
reads them."""

import re
from itertools import islice

from django.utils.translation import gettext, gettext_noop, ngettext

from chatapp.permissions.reasons import build_pattern

# The failures of calls that have values filled in. They are written where the calls are made, and
# repeated here to be recognized; a test finds one that is no longer written.
TEMPLATES = (
    gettext_noop("The tool %(name)s is no longer available."),
    gettext_noop("There is no tool named “%(name)s” in this chat."),
    gettext_noop("No one signed in to %(service)s in time."),
    gettext_noop("The service cancelled the task and said: “%(text)s”"),
    gettext_noop("The service refused: %(reason)s"),
    gettext_noop("The service refused the request (HTTP %(status)s)."),
    gettext_noop("There is no service at this URL (HTTP %(status)s)."),
    gettext_noop("The service returned an error (HTTP %(status)s)."),
    gettext_noop("The service said: “%(words)s”."),
    gettext_noop(
        "the PDF has %(count)s pages. The limit is %(most)s. Attach only the pages that you need."
    ),
    gettext_noop("The service needs a value for %(placeholder)s, and there is none."),
)
# The same with a number. It is the only value.
COUNTED = (
    (
        "The server stopped %(count)d time during this call. It is not tried again.",
        "The server stopped %(count)d times during this call. It is not tried again.",
    ),
    (
        "This tool can run %(count)d time a minute. Wait a minute.",
        "This tool can run %(count)d times a minute. Wait a minute.",
    ),
    (
        "The service asked more than %(count)d time in one call.",
        "The service asked more than %(count)d times in one call.",
    ),
)
# One of our messages has at most this many sentences.
MAX_SENTENCES = 4
# The end of a sentence, with the space before the next.
_BREAK = re.compile(r"[.”] ")


def _build_counted(form: str) -> re.Pattern[str]:
    return re.compile(re.escape(form).replace(re.escape("%(count)d"), r"(?P<count>\d{1,9})"))


_PATTERNS = tuple((template, build_pattern(template)) for template in TEMPLATES)
_COUNTED_PATTERNS = tuple((forms, _build_counted(form)) for forms in COUNTED for form in forms)


def translate_stored(sentence: object) -> str:
    """Return stored sentences in the active language. What is not ours stays as it is."""
    shown, rest = [], str(sentence or "")
    while rest:
        ends = [found.end() for found in islice(_BREAK.finditer(rest), MAX_SENTENCES)]
        for end in (len(rest), *ends):
            if (translated := _find_translation(rest[:end].rstrip())) is not None:
                break
        else:
            end, translated = len(rest), rest
        shown.append(translated)
        rest = rest[end:]
    return " ".join(shown)


def _find_translation(text: str) -> str | None:
    """Return the translation of a text that is one of our messages, or None. Rows of an earlier
    version have straight apostrophes."""
    for written in (text, text.replace("'", "’")):
        if (translated := gettext(written)) != written:
            return translated
    for template, pattern in _PATTERNS:
        if found := pattern.fullmatch(text):
            return gettext(template) % found.groupdict()
    for forms, pattern in _COUNTED_PATTERNS:
        if found := pattern.fullmatch(text):
            count = int(found["count"])
            return ngettext(*forms, count) % {"count": count}
    return None
