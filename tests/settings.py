"""Settings for tests: the real ones, with files and a database of their own that are not kept."""

import os
import tempfile
from pathlib import Path

# Before the settings are read: keys and the database file belong to this run alone.
MEMORY = "/dev/shm"
os.environ["VAR_DIR"] = tempfile.mkdtemp(
    prefix="countersign-tests-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None
)

from chatapp.server.sign_in_providers import PROVIDER_APPS  # noqa: E402
from chatapp.settings import *  # noqa: E402, F403
from chatapp.settings import (  # noqa: E402
    DATABASES,
    INSTALLED_APPS,
    STATIC_ROOT,
    STORAGES,
    VAR_DIR,
)

if DATABASES["default"]["ENGINE"] == "chatapp.server.sqlite":
    DATABASES["default"]["TEST"] = {"NAME": str(VAR_DIR / "test.sqlite3")}
    # What survives a power cut is no matter of these tests; those of whole servers run with FULL.
    options = DATABASES["default"]["OPTIONS"]
    options["init_command"] = options["init_command"].replace("synchronous=FULL", "synchronous=OFF")
Path(STATIC_ROOT).mkdir()
INSTALLED_APPS += PROVIDER_APPS.values()
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
AXES_ENABLED = False
# Many tests make requests for the same person within a minute.
API_REQUESTS_PER_MINUTE = UPLOADS_PER_MINUTE = 100_000
SHARED_REQUESTS_PER_MINUTE = SHARED_FILES_PER_MINUTE = SHARED_COPIES_PER_MINUTE = 100_000
TRACE_DELAY_SECONDS = 0
# A title is one more request, for which most tests script no answer.
TITLE_MODEL = "none"
