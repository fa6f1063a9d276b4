"""Names are cut into the words that a person would see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions import risk_vocabulary as vocabulary
from chatapp.permissions.word_splitting import mixes_alphabets, split_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("delete_note", ["delete", "note"]),
        ("deleteNote", ["delete", "note"]),
        ("delete-note", ["delete", "note"]),
        ("notes.delete", ["notes", "delete"]),
        ("v2/notes/delete", ["v", "notes", "delete"]),
        ("getHTTPServer", ["get", "http", "server"]),
        ("listURLs", ["list", "urls"]),
        ("HTTPGet", ["http", "get"]),
        ("delete2notes", ["delete", "notes"]),
        ("anexar_lançamento", ["anexar", "lancamento"]),
        ("ｄｅｌｅｔｅ", ["delete"]),
        ("de\u200dle\u00adte", ["delete"]),
        ("删除订单", ["删除订单"]),
        ("first line\nsecond", ["first", "line", "second"]),
        ("", []),
    ],
)
def test_names_are_cut_at_their_seams(name: str, words: list[str]) -> None:
    assert list(split_words(name)) == words


def test_only_alphabets_that_look_alike_count_as_mixed() -> None:
    assert mixes_alphabets("dеlete")
    assert not mixes_alphabets("удалить_file")
    assert not mixes_alphabets("delete删除")


@given(st.text())
def test_every_text_can_be_cut(text: str) -> None:
    words = split_words(text)
    assert split_words(" ".join(words)) == words


def test_every_word_of_the_vocabulary_can_be_met_in_a_name() -> None:
    tables = [
        vocabulary.VERBS,
        vocabulary.FOREIGN_VERBS,
        vocabulary.AMBIGUOUS,
        vocabulary.REPORTS,
        vocabulary.SOCIAL_VERBS,
        vocabulary.ACCESS_NOUNS,
        vocabulary.OPERATIONS_NOUNS,
        vocabulary.MONEY_NOUNS,
        vocabulary.WHOLE_THINGS,
        vocabulary.LIGHT_MADE,
        vocabulary.LIGHT_REMOVED,
        vocabulary.FOREIGN_STEMS,
    ]
    for table in tables:
        for word in table:
            assert split_words(word) == (word,)


def test_no_word_is_a_verb_in_two_senses() -> None:
    assert not vocabulary.VERBS.keys() & vocabulary.AMBIGUOUS.keys()
    assert not vocabulary.VERBS.keys() & vocabulary.FOREIGN_VERBS.keys()


def test_the_exceptions_are_verbs_that_exist() -> None:
    verbs = vocabulary.VERBS.keys() | vocabulary.AMBIGUOUS.keys()
    assert verbs >= vocabulary.UNMISTAKABLE
    assert verbs >= vocabulary.NOUN_LIKE_READERS
    assert verbs >= vocabulary.SOCIAL_VERBS
