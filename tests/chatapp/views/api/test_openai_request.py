"""What is refused of a request to the OpenAI face before any of its files is decoded."""

import json
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from chatapp.views.api.bearer import Problem
from chatapp.views.api.openai_request import MOST_FILES, read_request

# Whoever decodes it finds that it is no base64.
BROKEN = "data:image/png;base64,!!!!"


def request(*urls: str) -> HttpRequest:
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    body = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    return RequestFactory().post("/", json.dumps(body), "application/json")


def refusal_of(*urls: str) -> Problem:
    with pytest.raises(Problem) as caught:
        read_request(request(*urls))
    return caught.value


def test_too_many_files_are_refused_unopened() -> None:
    refused = refusal_of(*[BROKEN] * (MOST_FILES + 1))
    assert (refused.status, refused.field) == (413, "messages")
    assert refusal_of(*[BROKEN] * MOST_FILES).status == 400


@pytest.mark.parametrize(
    ("limit", "count"), [("FILE_MAX_BYTES", 1), ("MESSAGE_MAX_BYTES", 3)], ids=["one", "together"]
)
def test_files_that_are_too_heavy_are_refused_unopened(
    settings: Any, limit: str, count: int
) -> None:
    setattr(settings, limit, 3 * count)
    assert refusal_of(*[BROKEN] * count).status == 400, "They weigh exactly what they may."
    setattr(settings, limit, 3 * count - 1)
    assert refusal_of(*[BROKEN] * count).status == 413
    fits = [BROKEN.replace("!!!!", "YWE=")] * count  # two bytes each
    assert len(read_request(request(*fits)).asked.said[0].files) == count
