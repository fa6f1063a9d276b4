"""Hashing of passwords: only a few at once, wherever a password is set or checked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db import connection

# Argon2 takes a whole core and 100 MB for each password: some cores stay free for other requests.
SLOTS = BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))
SLOT_WAIT_SECONDS = 10.0
LOCKED_WAIT_SECONDS = 1.0


class TooManySignIns(Exception):
    """Other passwords are being hashed, and none was done in time."""


@contextmanager
def hashing_slot() -> Iterator[None]:
    """Wait until this password may be hashed. Raises TooManySignIns after SLOT_WAIT_SECONDS, or
    earlier inside a transaction, for whose locks others may wait."""
    most = LOCKED_WAIT_SECONDS if connection.in_atomic_block else SLOT_WAIT_SECONDS
    if not SLOTS.acquire(timeout=min(most, SLOT_WAIT_SECONDS)):
        raise TooManySignIns
    try:
        yield
    finally:
        SLOTS.release()


class InTurn:
    """Lets a hasher wait for its slot. Its `verify` must not call `encode`."""

    def encode(self, password: str, salt: str) -> str:
        with hashing_slot():
            encoded: str = super().encode(password, salt)  # type: ignore[misc]  # the hasher's
        return encoded

    def verify(self, password: str, encoded: str) -> bool:
        with hashing_slot():
            fits: bool = super().verify(password, encoded)  # type: ignore[misc]  # the hasher's
        return fits


class Argon2InTurn(InTurn, Argon2PasswordHasher):
    """Django's hasher with slots. Django's eight lanes would take all cores at once; one takes as
    much work and memory from who guesses. Older hashes are replaced at the next sign-in."""

    parallelism = 1
