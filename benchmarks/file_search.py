"""What a search in the files of a project costs: by words, and by meaning as the project grows.

Run `python -m benchmarks.file_search`, with the `DATABASE_URL` of the server. It uses a database of
its own, which it drops afterwards. The vectors are random, the request to the provider is left out,
and the floor is reading the signs of all vectors of the project.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator

from django.db import connection

from chatapp.models import Member, PassageVector, Project, ProjectFile, ProjectPassage
from chatapp.models.projects import passage_index
from chatapp.models.projects.passage_index import find_best
from chatapp.models.projects.passage_vectors import find_closest, pack_numbers, pack_signs

from .own_database import own_database
from .report import Figure, print_figures, read_options

AT_ONCE = 500
WORDS = ("gateway", "timeout", "restart", "invoice", "holiday", "engine", "pump", "valve")
VERSION = 1


def fill(passages: int, dimensions: int) -> Project:
    """Create a project with one file of so many passages, each with a vector."""
    rng = random.Random(1)  # noqa: S311
    owner, _ = Member.objects.get_or_create(username="owner")
    project = Project.objects.create(owner=owner, name=f"{passages} passages")
    file = ProjectFile.objects.create(
        project=project, name="long.txt", size=1, state=ProjectFile.State.READY
    )
    for first in range(0, passages, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, passages))
        rows = ProjectPassage.objects.bulk_create(
            ProjectPassage(
                file=file, number=number, text=" ".join(rng.choices(WORDS, k=200)) + f" n{number}"
            )
            for number in numbers
        )
        vectors = [[rng.gauss(0, 1) for _ in range(dimensions)] for _ in rows]
        PassageVector.objects.bulk_create(
            PassageVector(
                passage=row,
                version=VERSION,
                signs=pack_signs(vector),
                numbers=pack_numbers(vector),
            )
            for row, vector in zip(rows, vectors, strict=True)
        )
    return project


def measure(passages: int, dimensions: int, times: int) -> Iterator[Figure]:
    project, rng = fill(passages, dimensions), random.Random(2)  # noqa: S311
    asked = [rng.gauss(0, 1) for _ in range(dimensions)]
    signs = PassageVector.objects.filter(passage__file__project=project)

    def find_by_meaning() -> None:
        assert len(find_closest(project.pk, asked, VERSION, 50)) == min(50, passages)

    def find_by_words() -> None:
        assert find_best(project.pk, [WORDS[0], "n7"], 50)

    floor = measure_median(lambda: list(signs.values_list("pk", "signs")), times)
    meaning = measure_median(find_by_meaning, times)
    yield f"{passages:,} passages: by words", measure_median(find_by_words, times), "ms"
    yield f"{passages:,} passages: by meaning", meaning, "ms"
    yield f"{passages:,} passages: by meaning, of reading the signs", meaning / floor, "times"


def measure_median(act: Callable[[], object], times: int) -> float:
    """Return the milliseconds of the median of several runs, after one that does not count."""
    act()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        taken.append(1_000 * (time.perf_counter() - started))
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.file_search", description=__doc__)
    parser.add_argument("--passages", type=int, nargs="+", default=[1_000, 10_000, 40_000])
    parser.add_argument("--dimensions", type=int, default=1_536)
    parser.add_argument("--times", type=int, default=7)
    options = read_options(parser, passages=[100], dimensions=64, times=1)
    with own_database():
        passage_index.install(connection)
        figures = [
            figure
            for passages in options.passages
            for figure in measure(passages, options.dimensions, options.times)
        ]
    print_figures(f"A search in the files of a project, {options.dimensions} dimensions", figures)


if __name__ == "__main__":
    main()
