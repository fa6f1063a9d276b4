"""Sentences that are stored in English, because the model or the log reads them too, as a person
reads them."""

from django.utils.translation import gettext


def translate_stored(sentence: object) -> str:
    """Return a stored sentence in the active language. One that has values filled in, or that is
    not ours, stays as it is."""
    text = str(sentence or "")
    return gettext(text) if text else ""
