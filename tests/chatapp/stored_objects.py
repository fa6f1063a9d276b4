"""A folder as the storage of files, and what is in it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from chatapp.models import StoredObject


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    options = {**settings.STORAGES["folder"]["OPTIONS"], "location": str(tmp_path)}
    settings.STORAGES = {
        **settings.STORAGES,
        "folder": {**settings.STORAGES["folder"], "OPTIONS": options},
    }
    settings.FILE_STORAGE = "folder"
    return tmp_path


def objects(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def make_old() -> None:
    StoredObject.objects.update(created_at=timezone.now() - timedelta(hours=2))
