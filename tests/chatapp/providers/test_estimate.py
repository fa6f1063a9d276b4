"""How many tokens a request is about to have, on the side of too many."""

from dataclasses import replace

from chatapp.providers.estimate import count_item_tokens, count_text_tokens
from chatapp.providers.request import Media, UserMessage


def test_an_estimate_is_never_below_what_tokenisers_count() -> None:
    assert count_text_tokens("") == 0
    assert count_text_tokens("a") == 1
    assert count_text_tokens("word " * 100) >= 125
    assert count_text_tokens("漢字" * 100) >= 130
    assert count_text_tokens('{"a":1,"b":[2,3]}' * 10) >= 45


def test_files_count_although_they_have_no_words() -> None:
    picture = Media(media_type="image/png", base64="A" * 8)
    pages = Media(media_type="application/pdf", base64="A" * 400_000)
    bare = count_item_tokens(UserMessage(text="Look"))
    assert count_item_tokens(UserMessage(text="Look", media=(picture,))) > bare + 1_000
    assert count_item_tokens(UserMessage(text="Look", media=(pages,))) > bare + 10_000


def test_a_scan_counts_by_its_pages_where_they_are_known() -> None:
    scan = Media(media_type="application/pdf", base64="A" * 8_000_000, pages=20)
    assert count_item_tokens(UserMessage(text="", media=(scan,))) < 60_000
    assert count_item_tokens(UserMessage(text="", media=(replace(scan, pages=None),))) > 200_000
