"""How many tokens a request is about to have, on the side of too many."""

from dataclasses import replace

from chatapp.providers.estimate import tokens_in, tokens_of_item
from chatapp.providers.request import Media, UserMessage


def test_an_estimate_is_never_below_what_tokenisers_count() -> None:
    assert tokens_in("") == 0
    assert tokens_in("a") == 1
    assert tokens_in("word " * 100) >= 125
    assert tokens_in("漢字" * 100) >= 130
    assert tokens_in('{"a":1,"b":[2,3]}' * 10) >= 45


def test_files_count_although_they_have_no_words() -> None:
    picture = Media(media_type="image/png", base64="A" * 8)
    pages = Media(media_type="application/pdf", base64="A" * 400_000)
    bare = tokens_of_item(UserMessage(text="Look"))
    assert tokens_of_item(UserMessage(text="Look", media=(picture,))) > bare + 1_000
    assert tokens_of_item(UserMessage(text="Look", media=(pages,))) > bare + 10_000


def test_a_scan_counts_by_its_pages_where_they_are_known() -> None:
    scan = Media(media_type="application/pdf", base64="A" * 8_000_000, pages=20)
    assert tokens_of_item(UserMessage(text="", media=(scan,))) < 60_000
    assert tokens_of_item(UserMessage(text="", media=(replace(scan, pages=None),))) > 200_000
