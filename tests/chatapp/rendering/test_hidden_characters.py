"""Hidden characters are drawn, deceptive names are noticed."""

import pytest
from django.utils.safestring import SafeString

from chatapp.rendering.hidden_characters import draw_hidden, has_hidden, has_mixed_scripts

HIDDEN = {
    "null": "\x00",
    "escape": "\x1b",
    "carriage return": "\r",
    "delete": "\x7f",
    "C1": "\x9b",
    "no-break space": "\xa0",
    "soft hyphen": "\xad",
    "grapheme joiner": "\u034f",
    "Arabic letter mark": "\u061c",
    "Hangul filler": "\u3164",
    "Mongolian separator": "\u180e",
    "em space": "\u2003",
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "right-to-left mark": "\u200f",
    "line separator": "\u2028",
    "right-to-left override": "\u202e",
    "narrow no-break space": "\u202f",
    "mathematical space": "\u205f",
    "word joiner": "\u2060",
    "isolate": "\u2066",
    "pop isolate": "\u2069",
    "braille blank": "\u2800",
    "ideographic space": "\u3000",
    "variation selector": "\ufe0f",
    "byte order mark": "\ufeff",
    "interlinear annotation": "\ufff9",
    "surrogate": "\udc80",
    "tag letter": "\U000e0041",
    "supplementary variation selector": "\U000e0100",
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_character_is_drawn_as_its_code_point(name: str) -> None:
    character = HIDDEN[name]
    assert has_hidden(f"a{character}b")
    drawn = f'a<span class="hidden-char">⟨U+{ord(character):04X}⟩</span>b'
    assert draw_hidden(f"a{character}b") == drawn


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines\tand tab", "Ünïcödé", "日本語", "עברית", "🙂", ""]
)
def test_honest_text_stays_as_it_is(text: str) -> None:
    assert not has_hidden(text)
    assert draw_hidden(text) == text


def test_markup_is_escaped() -> None:
    drawn = draw_hidden('<b onclick="x">&\u202e\'')
    assert isinstance(drawn, SafeString)
    assert drawn == (
        '&lt;b onclick=&quot;x&quot;&gt;&amp;<span class="hidden-char">⟨U+202E⟩</span>&#x27;'
    )


@pytest.mark.parametrize(
    "name",
    ["delete_fil\u0435", "p\u0430ypal", "\u0391dmin", "\uff44elete", "de\U0001d41bete", "\u13aaBC"],
)
def test_a_name_of_letters_that_look_alike_is_noticed(name: str) -> None:
    assert has_mixed_scripts(name)


@pytest.mark.parametrize("name", ["delete_file-2", "удалить_файл", "αβγ", "naïve", "日本_tool", ""])
def test_a_name_in_one_script_is_not_suspected(name: str) -> None:
    assert not has_mixed_scripts(name)
