"""The outbound requests of sign-in providers: bounded in time, size and redirects.

Providers are named by the operator, so their addresses are trusted, as those of model servers are.
"""

import time
from typing import Any

import requests
from django.conf import settings

MAX_BYTES = 1_000_000
CHUNK_BYTES = 16_384


class BoundedSession(requests.Session):
    """One deadline for all requests of the session, from their connection to the last byte."""

    def __init__(self) -> None:
        super().__init__()
        self.max_redirects = 3
        # Neither a proxy nor a password from the environment of the server.
        self.trust_env = False
        self._ends_at = time.monotonic() + settings.PROVIDER_SECONDS

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs["timeout"] = max(0.1, self._ends_at - time.monotonic())
        kwargs["stream"] = True
        response = super().request(*args, **kwargs)
        body = bytearray()
        # What has arrived, and not a whole chunk: a chunk may come byte by byte for hours.
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > MAX_BYTES:
                response.close()
                raise requests.exceptions.ContentDecodingError("The answer is too large.")
            if time.monotonic() > self._ends_at:
                response.close()
                raise requests.exceptions.ReadTimeout("The answer took too long.")
        # Where `requests` keeps a body that it has read itself.
        response._content = bytes(body)
        return response
