"""The sources name their messages so that they are found, and templates are read as Django reads
them."""

import ast
import re

import pytest

from translations.faults import find_source_faults
from translations.sources import (
    ROOT,
    list_python_files,
    list_templates,
    read_python_messages,
    read_template_messages,
)

IMPORTS = """
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
"""


# These translate sentences that are marked elsewhere with `gettext_noop` or `gettext_lazy`: values
# that are stored, sent or compared in English.
TRANSLATE_MARKED = (
    "chatapp/approvals/attention_checks.py",
    "chatapp/permissions/binding.py",
    "chatapp/permissions/consequences.py",
    "chatapp/permissions/reasons.py",
    "chatapp/rendering/call_values.py",
    "chatapp/rendering/stored_sentences.py",
    "chatapp/tool_menu/own_tools.py",
)


def test_every_message_is_a_plain_string_and_those_of_modules_are_lazy() -> None:
    faults = {
        path.relative_to(ROOT).as_posix(): find_source_faults(path.read_text())
        for path in list_python_files()
        if path.relative_to(ROOT).as_posix() not in TRANSLATE_MARKED
    }
    assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    "line",
    [
        "def show(name): return _(f'Hello {name}')",
        "def show(name): return _('Hello %s' % name)",
        "def show(name): return _(name)",
        "def show(n): return ngettext('day', PLURAL, n)",
        "def show(): return _()",
        "TITLE = _('Title')",
        "class Page: title = _('Title')",
        "def show(title=_('Title')): ...",
        "@named(_('Title'))\ndef show(): ...",
        "from django.utils.translation import gettext as translate",
    ],
)
def test_a_message_that_would_not_be_found_or_not_be_translated_is_a_fault(line: str) -> None:
    assert find_source_faults(IMPORTS + line)


@pytest.mark.parametrize(
    "line",
    [
        "def show(): return _('Hello %(name)s') % {'name': 'Eva'}",
        "def show(n): return ngettext('%(n)s day', '%(n)s days', n)",
        "TITLE = _lazy('Title')",
        "NAMES = [lambda: _('Title')]",
    ],
)
def test_a_message_in_order_passes(line: str) -> None:
    assert find_source_faults(IMPORTS + line) == []


def test_calls_in_python_are_found_wherever_they_are() -> None:
    source = """
def show(n):
    one = gettext("One " "sentence")
    two = f"{one} {gettext('Inside')}"
    three = ngettext("%s day", "%s days", n)
    return pgettext("month", "May"), npgettext("time", "minute", "minutes", n)
"""
    assert list(read_python_messages(source)) == [
        (3, "One sentence", None),
        (4, "Inside", None),
        (5, ("%s day", "%s days"), None),
        (6, "May", "month"),
        (6, ("minute", "minutes"), "time"),
    ]


def test_tags_and_filters_in_templates_are_found_with_their_lines() -> None:
    source = """{% load i18n %}
<p title="{% translate "It's 5 %" %}">{{ name|default:_("nobody") }}</p>
  {% if here %}{% translate 'May' context "month" %}{% endif %}
{% blocktranslate trimmed with who=person.name %}
    Hello
    {{ who }}
{% endblocktranslate %}
    {% blocktranslate count n=days %}{{ n }} day{% plural %}{{ n }} days{% endblocktranslate %}
{% include "x.html" with title=_("Title") %} it's "odd'
{# Not a message: #}"""
    assert list(read_template_messages(source)) == [
        (2, "It's 5 %%", None),
        (2, "nobody", None),
        (3, "May", "month"),
        (4, "Hello %(who)s", None),
        (8, ("%(n)s day", "%(n)s days"), None),
        (9, "Title", None),
    ]


def test_every_template_can_be_read() -> None:
    for path in list_templates():
        list(read_template_messages(path.read_text()))


# Fields whose label is in a template, or that no page shows.
UNLABELLED = ("CONTEXT_TOKENS_FIELD", "PRICE_FIELD", "text")


def test_every_field_of_an_admin_or_account_form_has_a_label() -> None:
    """Django would make an English label of the name."""
    assert _find_unlabelled("name = forms.CharField(required=False)") == ["name"]
    folders = ("chatapp/admin", "mcpconfig/admin", "chatapp/views/account")
    found = {
        path.relative_to(ROOT).as_posix(): names
        for path in list_python_files()
        if path.relative_to(ROOT).as_posix().startswith(folders)
        and (names := _find_unlabelled(path.read_text()))
    }
    assert found == {}


def _find_unlabelled(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        is_field = re.match(r"forms\.\w*Field$", ast.unparse(node.value.func))
        has_label = any(keyword.arg == "label" for keyword in node.value.keywords)
        name = ast.unparse(node.targets[0])
        if is_field and not has_label and name not in UNLABELLED:
            found.append(name)
    return found


# Two words or more in quotes, with an end of a sentence.
SENTENCE_IN_SCRIPT = re.compile(r"""["'`][A-Z][a-z]+ [^"'`\n]*[.!?…]["'`]""")
# An app's programmer reads this one: it belongs to JSON-RPC.
PROTOCOL_MESSAGES = ['"Not supported."']


def test_scripts_take_their_sentences_from_the_page() -> None:
    scripts = {path.name: path.read_text() for path in (ROOT / "static/js").rglob("*.js")}
    assert len(scripts) > 5
    found = {name: SENTENCE_IN_SCRIPT.findall(text) for name, text in scripts.items()}
    assert {name: each for name, each in found.items() if each} == {
        "app_frame.js": PROTOCOL_MESSAGES
    }
    assert SENTENCE_IN_SCRIPT.findall('note(app, "The app has stopped.");')
