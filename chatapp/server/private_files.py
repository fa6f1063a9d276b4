"""Rights of the files of this server: only its own user may read the keys and the database.

Works without settings, which call it while they are read.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
# SQLite gives these files the mode of the database when it makes them.
BESIDE_A_DATABASE = ("", "-wal", "-shm", "-journal")


def make_private_folder(path: Path) -> None:
    """Make the folder, or take the rights of others away from one that is there."""
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    _restrict(path, FOLDER_MODE)


def make_private_file(path: Path, text: str) -> None:
    """Make a file with this text, unless there is one. Servers that start together all find the
    same text, and never a part of it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.") as made:
        made.write(text)
        made.flush()
        os.fsync(made.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(made.name, path)


def make_private_database(name: str) -> None:
    """Make an empty SQLite database, or take the rights of others away from one that is there.

    SQLite itself makes a file that everyone can read. In a folder that is not there, nothing is
    made: the connection reports it.
    """
    if name.startswith((":", "file:")):
        return
    path = Path(name)
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
    for suffix in BESIDE_A_DATABASE:
        _restrict(path.with_name(path.name + suffix), FILE_MODE)


def _restrict(path: Path, mode: int) -> None:
    """Remove every right beyond `mode`. What belongs to another user, and a folder that all users
    share as `/tmp`, stays as it is."""
    with contextlib.suppress(OSError):
        found = path.stat()
        is_shared = bool(found.st_mode & stat.S_ISVTX)
        if found.st_uid == os.geteuid() and not is_shared and found.st_mode & 0o777 & ~mode:
            path.chmod(found.st_mode & mode)
