"""The page on which a model answers while it is open: its text appears as the provider sends it,
without JavaScript."""

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.translation import get_language, override

from chatapp.providers.access.provider_check import Sample, stream_sample
from chatapp.providers.account import Account
from chatapp.server.database import in_database
from chatapp.views.downloads import STREAM_HEADERS

FOLDER = "admin/chatapp/modelprovider"
Keep = Callable[[Sample], object]


def stream_page(
    request: HttpRequest,
    context: dict[str, Any],
    *,
    kind: str,
    account: Account,
    model: str,
    keep: Keep | None = None,
) -> StreamingHttpResponse:
    """Return the page. `keep` is called with the outcome when the answer is complete."""
    mark = uuid.uuid4().hex
    values = {"model": model, "mark": mark, **context}
    page = render_to_string(f"{FOLDER}/answer.html", values, request=request)
    before, _mark, after = page.partition(mark)
    between, _mark, end = after.partition(mark)

    language = get_language()

    async def write() -> AsyncGenerator[str, None]:
        # The response is written after the middleware has left the language of the request.
        with override(language):
            yield before
            async with aclosing(stream_sample(kind, account, model)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, str):
                        yield escape(piece)
                        continue
                    yield between
                    if keep is not None:
                        await in_database(keep, piece)
                    yield await in_database(_render_sample, piece)
            yield end

    return StreamingHttpResponse(write(), headers=STREAM_HEADERS)


def _render_sample(sample: Sample) -> str:
    return render_to_string(f"{FOLDER}/_sample.html", {"sample": sample})
