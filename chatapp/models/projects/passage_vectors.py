"""Finds the passages of a project that are closest in meaning.

No index for vectors works in both databases without an extension, so the passages of a project are
compared one by one: first by the signs of their numbers, which need 1/32 of the space, and the
closest of them then exactly. See "Binary quantization with rescoring", Shakir, Aarsen and Lee 2024.
"""

import array
import heapq
import math
import operator
import sys
import uuid
from collections.abc import Sequence

from .project_file import ProjectFile
from .search_by_meaning import PassageVector

# Compared exactly.
CANDIDATES = 200


def pack_numbers(vector: Sequence[float]) -> bytes:
    """Return the vector with length 1 as 32-bit floats, little endian."""
    length = math.hypot(*vector)
    packed = array.array("f", (each / length for each in vector))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def pack_signs(vector: Sequence[float]) -> bytes:
    """Return a bit for each number, set if it is positive."""
    bits = sum(1 << place for place, each in enumerate(vector) if each > 0)
    return bits.to_bytes((len(vector) + 7) // 8, "little")


def _unpack_numbers(data: bytes) -> "array.array[float]":
    numbers = array.array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def find_closest(
    project_id: uuid.UUID,
    vector: Sequence[float],
    version: int,
    most: int,
    file_id: uuid.UUID | None = None,
) -> list[int]:
    """Return the ids of the passages of this project whose vectors of this version are closest, the
    closest first. With a file, only its passages count."""
    rows = PassageVector.objects.filter(
        version=version,
        passage__file__project=project_id,
        passage__file__state=ProjectFile.State.READY,
    ).exclude(signs=b"")
    if file_id is not None:
        rows = rows.filter(passage__file=file_id)
    signs = int.from_bytes(pack_signs(vector), "little")
    different = (
        ((int.from_bytes(each, "little") ^ signs).bit_count(), pk)
        for pk, each in rows.values_list("pk", "signs").iterator(chunk_size=2_000)
    )
    candidates = [pk for _, pk in heapq.nsmallest(CANDIDATES, different)]
    asked = _unpack_numbers(pack_numbers(vector))
    found = rows.filter(pk__in=candidates).values_list("pk", "numbers")
    close = [
        (-sum(map(operator.mul, asked, numbers)), pk)
        for pk, data in found
        if len(numbers := _unpack_numbers(bytes(data))) == len(asked)
    ]
    return [pk for _, pk in sorted(close)[:most]]
