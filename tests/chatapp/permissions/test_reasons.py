"""The reasons of policy are stored in English and shown in the reader's language."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from chatapp.permissions import reasons
from chatapp.permissions.reasons import split_reason, translate_reason

WELSH = {
    reasons.SET_BY_ADMIN: "Gosodwyd gan weinyddwr.",
    reasons.SAME_CALL: "Yr un alwad, %(times)s gwaith.",
}


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (reasons.SET_BY_ADMIN, "Gosodwyd gan weinyddwr."),
        (reasons.SAME_CALL % {"times": 3}, "Yr un alwad, 3 gwaith."),
        (reasons.NOT_ASSESSED, reasons.NOT_ASSESSED),
        ("Its name says that it deletes.", "Its name says that it deletes."),
        ("100 % of %(times)s", "100 % of %(times)s"),
        ("", ""),
    ],
)
def test_a_stored_reason_is_translated_when_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, stored: str, shown: str
) -> None:
    monkeypatch.setattr(reasons, "gettext", lambda text: WELSH.get(text, text))
    assert translate_reason(stored) == shown


VALUES: Mapping[str, str] = {
    "service": "a “quoted”. Name: %(x)s",
    "names": "to, cc",
    "times": "3",
    "limit": "2",
    "model": "openai:gpt-5",
    "reason": "It deletes “all”. Name: %(x)s",
}


@pytest.mark.parametrize("template", reasons._WITH_VALUES)
def test_the_values_of_a_stored_reason_are_found_again(template: str) -> None:
    found, values = split_reason(template % VALUES)
    assert found == template
    assert template % values == template % VALUES
    assert translate_reason(template % VALUES) == template % VALUES


def test_every_sentence_with_values_can_be_split() -> None:
    sentences = [
        sentence
        for value in vars(reasons).values()
        for sentence in (value.values() if isinstance(value, Mapping) else [value])
        if isinstance(sentence, str)
    ]
    with_values = {each for each in sentences if "%(" in each and each != reasons.__doc__}
    assert with_values == set(reasons._WITH_VALUES)


def test_the_package_needs_no_settings() -> None:
    """Benchmarks and other programs import the policy without Django."""
    names = "binding", "conditions", "consequences", "decide", "forbidden", "hosts", "risk"
    program = "\n".join(f"import chatapp.permissions.{name}" for name in names)
    without = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    ran = subprocess.run([sys.executable, "-c", program], env=without, capture_output=True)
    assert (ran.returncode, ran.stderr.decode()) == (0, "")


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("The name says it deletes.", reasons.NAME_SAYS["deletes"]),
        ("The name says it moves money.", reasons.NAME_SAYS["money"]),
        ("The tool's name suggests that it deletes data.", reasons.NAME_SAYS["deletes"]),
        ("The name doesn't say what it does.", reasons.NAME_SAYS_NOTHING),
        ("The description says it deletes.", reasons.DESCRIPTION_SAYS["deletes"]),
        ("One of its actions deletes.", reasons.ACTIONS_SAY["deletes"]),
    ],
)
def test_a_stored_reason_of_an_earlier_version_is_shown_in_the_words_of_today(
    stored: str, shown: str
) -> None:
    assert split_reason(stored) == (shown, {})
    assert translate_reason(stored) == shown
