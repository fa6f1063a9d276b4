"""The S3-compatible storage of files, with short time limits: somebody waits for each request."""

from typing import Any

from botocore.config import Config
from storages.backends.s3 import S3Storage

CONNECT_SECONDS = 5
READ_SECONDS = 20
ATTEMPTS = 2


class BoundedS3Storage(S3Storage):  # type: ignore[misc]  # the library has no types
    def __init__(self, **settings: Any) -> None:
        addressing = settings.pop("addressing_style", "auto")
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": ATTEMPTS},
            s3={"addressing_style": addressing},
        )
        super().__init__(client_config=config, **settings)
