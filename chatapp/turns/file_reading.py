"""Files of programs, looked at in threads of their own: a slow one holds up nobody's turn, and one
token has only a few of them in hand at a time."""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from chatapp.models import AccessToken

from .refusals import Refused
from .uploads import Examined, Upload, examined

THREADS = 2
MOST_AT_ONCE = 2
TOO_MANY = f"Files of {MOST_AT_ONCE} requests of this token are being read. Wait for their answers."
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
_at_once: Counter[uuid.UUID] = Counter()


async def examined_files(
    token: AccessToken, files: Sequence[Sequence[Upload]]
) -> list[list[Examined]]:
    """The files of each message of one request, looked at. Raises Refused."""
    if not any(files):
        return [[] for _ in files]
    with _in_hand(token.pk):
        return [[await _looked_at(file) for file in each] for each in files]


async def _looked_at(file: Upload) -> Examined:
    return await asyncio.get_running_loop().run_in_executor(_pool, examined, file)


@contextlib.contextmanager
def _in_hand(token_id: uuid.UUID) -> Iterator[None]:
    if _at_once[token_id] >= MOST_AT_ONCE:
        raise Refused(TOO_MANY, 429)
    _at_once[token_id] += 1
    try:
        yield
    finally:
        _at_once[token_id] -= 1
        if not _at_once[token_id]:
            del _at_once[token_id]
