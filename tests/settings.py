"""Settings for tests: the real ones, with a database of their own and nothing kept between runs."""

import tempfile
from pathlib import Path

from chatapp.settings import *  # noqa: F403

VAR_DIR = Path(tempfile.mkdtemp(prefix="countersign-tests-"))
DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}  # noqa: F405
STORAGES["staticfiles"] = {  # noqa: F405
    "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AXES_ENABLED = False
