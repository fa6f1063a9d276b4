"""Files of tests with their assertions rewritten, made before the processes of a run start.

Pytest rewrites a file when it imports it, and keeps the result beside its bytecode. All processes
import all files at the same moment, so in a fresh clone each of them would rewrite every file.
"""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

_config: pytest.Config


def fill_cache(config: pytest.Config, files: Sequence[Path]) -> None:
    """Rewrite these files in as many processes as there are cores."""
    if sys.dont_write_bytecode:
        return
    # A process that is forked has the configuration, which cannot be sent to it.
    forking = multiprocessing.get_context("fork")
    with forking.Pool(os.cpu_count(), initializer=_keep, initargs=(config,)) as pool:
        pool.map(_rewrite_file, files, chunksize=8)


def _keep(config: pytest.Config) -> None:
    global _config
    _config = config


def _rewrite_file(file: Path) -> None:
    folder = rewrite.get_cache_dir(file)
    cached = folder / (file.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(file, cached) is None and rewrite.try_makedirs(folder):
        state = _config.stash[rewrite.assertstate_key]
        source_hash, code = rewrite._rewrite_test(file, _config)
        rewrite._write_pyc(state, code, source_hash, cached)
