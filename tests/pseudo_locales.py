"""The languages that are made by code, for tests in this process. `en-xa` is longer English between
brackets, `ar-xb` runs from right to left."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from translations.pseudo_locales import write_pseudo_locales

LONG, RTL = "en-xa", "ar-xb"
ACCENTED = frozenset("ÅåÇçĎďÉéĞğÎîĽľÑñÖöŘřŠšŤťÜüÝýŽž")


def is_translated(text: str) -> bool:
    """Whether some of the text is in the longer language. Tests use no such letters themselves."""
    return not ACCENTED.isdisjoint(text)


@pytest.fixture(scope="session")
def pseudo_locales_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pseudo_locales")
    write_pseudo_locales(folder)
    return folder


@pytest.fixture
def pseudo_locales(pseudo_locales_folder: Path, settings: Any) -> None:
    """Add them to the languages of this process, as PSEUDO_LOCALES does for a server."""
    settings.LANGUAGES = [*django_settings.LANGUAGES, (LONG, "Longer"), (RTL, "Right to left")]
    settings.LOCALE_PATHS = [*django_settings.LOCALE_PATHS, pseudo_locales_folder]
