"""Extract the messages of our sources into the catalog of each language, and compile it.

`make messages` runs this. A folder `locale/LANGUAGE` without a catalog gets one.
"""

from .catalogs import (
    compile_catalog,
    format_catalog,
    get_po_path,
    is_translated,
    list_languages,
    read_catalog,
    update_catalog,
)
from .sources import extract_messages


def main() -> None:
    extracted = extract_messages()
    for language in list_languages():
        catalog = read_catalog(language)
        update_catalog(catalog, extracted)
        path = get_po_path(language)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(format_catalog(catalog))
        path.with_suffix(".mo").write_bytes(compile_catalog(catalog))
        missing = sum(not is_translated(message) for message in catalog if message.id)
        print(f"{language}: {len(catalog)} messages, {missing} without a translation")


if __name__ == "__main__":
    main()
