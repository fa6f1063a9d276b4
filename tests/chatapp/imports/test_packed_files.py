"""Files beside the chats are found by their ids and paths, and never unpacked beyond a limit."""

import io
import struct
import zipfile
from typing import Any

import pytest

from chatapp.imports import packed_files
from chatapp.imports.packed_files import PackedFiles, find_ids, make_path_key
from chatapp.imports.values import NotBrought, Reason, SourceFile

from .pictures import PAGE, data_uri, png
from .samples import to_zip

UUID = "11111111-2222-4333-8444-555555555555"


def pack(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def use(archive: bytes) -> PackedFiles:
    files = PackedFiles()
    files.use(zipfile.ZipFile(io.BytesIO(archive)))
    return files


def picture(*keys: str) -> SourceFile:
    return SourceFile(what="picture", keys=keys)


def get_reason(files: PackedFiles, file: SourceFile) -> Reason:
    with pytest.raises(NotBrought) as left_out:
        files.read(file)
    return left_out.value.reason


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("file-service://file-AbCd", "file-AbCd-pond.png"),
        ("file-service://file-AbCd", "dalle-generations/file-AbCd-0a1b.webp"),
        ("sediment://file_00000000a1b2", "user-x/file_00000000a1b2-sanitized.png"),
        ("sediment://file_00000000a1b2", "file_00000000a1b2.dat"),
        ("sediment://99ff#file_00000000a1b2#p_1.png", "file_00000000a1b2.dat"),
        (f"/api/v1/files/{UUID.upper()}/content", f"uploads/{UUID}_pond.png"),
        (f"https://chat.example/attachments/{UUID}/", f"files/{UUID}/pond.png"),
    ],
)
def test_a_picture_is_found_by_its_id(address: str, name: str) -> None:
    assert use(to_zip({"other.png": PAGE, name: png()})).read(picture(*find_ids(address))) == png()


def test_an_id_is_no_beginning_of_another() -> None:
    files = use(to_zip({"file-AbCdEf-pond.png": png()}))
    assert get_reason(files, picture(*find_ids("file-service://file-AbCd"))) == Reason.MISSING


def test_a_name_that_two_files_have_finds_neither() -> None:
    files = use(to_zip({"a/pond.png": png(), "b/Pond.png": png(), "b/frog.png": png()}))
    assert get_reason(files, picture(*make_path_key("/images/pond.png"))) == Reason.MISSING
    assert files.read(picture(*make_path_key("/images/Frog.png"))) == png()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("user-x/file-AbCd-my pond.png", "my pond.png"),
        ("file-AbCd.png", ""),
        (f"{UUID}_pond.png", "pond.png"),
    ],
)
def test_the_name_of_a_file_is_without_its_id(name: str, shown: str) -> None:
    keys = ("file-AbCd", UUID)
    assert use(to_zip({name: png()})).find_name(picture(*keys)) == shown


def test_a_page_that_is_named_as_a_picture_is_none() -> None:
    files = use(to_zip({"file-AbCd.png": PAGE}))
    assert get_reason(files, picture("file-AbCd")) == Reason.KIND
    assert get_reason(files, SourceFile(what="picture", encoded=data_uri(PAGE))) == Reason.KIND


def test_films_leave_room_for_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "MAX_FILES_BYTES", 10_000)
    files = use(to_zip({"file-Film.mp4": b"\0\0\0 ftypisom" + bytes(9_990), "file-AbCd": png()}))
    for _again in range(3):
        assert get_reason(files, picture("file-Film")) == Reason.KIND
    assert files.read(picture("file-AbCd")) == png()


def test_a_name_that_is_no_text_is_damage() -> None:
    packed = bytearray(to_zip({"file-AbCd-ü.png": png()}))
    packed[packed.index("ü".encode())] = 0xFF
    assert get_reason(use(bytes(packed)), picture("file-AbCd")) == Reason.DAMAGED


def test_a_bomb_is_not_unpacked(settings: Any) -> None:
    settings.FILE_MAX_BYTES = 100_000
    files = use(to_zip({"file-AbCd.png": png() + bytes(50_000_000)}))
    assert get_reason(files, picture("file-AbCd")) == Reason.LARGE


def test_a_bomb_that_lies_about_its_size_ends_there(settings: Any) -> None:
    settings.FILE_MAX_BYTES = 100_000
    packed = bytearray(to_zip({"file-AbCd.png": png() + bytes(50_000_000)}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<L", packed, packed.rindex(signature) + offset, 1_000)
    assert get_reason(use(bytes(packed)), picture("file-AbCd")) == Reason.DAMAGED


def test_encoded_pictures_have_the_same_limit(settings: Any) -> None:
    settings.FILE_MAX_BYTES = len(png())
    assert PackedFiles().read(SourceFile(what="picture", encoded=data_uri(png()))) == png()
    settings.FILE_MAX_BYTES -= 1
    large = SourceFile(what="picture", encoded=data_uri(png()))
    assert get_reason(PackedFiles(), large) == Reason.LARGE


@pytest.mark.parametrize("encoded", ["data:image/png;base64,%%%", "data:image/png,x", "data:", "é"])
def test_what_is_no_base64_is_damaged(encoded: str) -> None:
    file = SourceFile(what="picture", encoded=encoded)
    assert get_reason(PackedFiles(), file) == Reason.DAMAGED


def test_a_damaged_a_locked_and_an_empty_entry_are_left_out() -> None:
    damaged = bytearray(pack({"file-AbCd.png": png()}, zipfile.ZIP_STORED))
    damaged[damaged.index(b"IDAT") + 8] ^= 0xFF
    locked = bytearray(pack({"file-AbCd.png": png()}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(signature) + offset] |= 1
    for archive in (bytes(damaged), bytes(locked), pack({"file-AbCd.png": b""})):
        assert get_reason(use(archive), picture("file-AbCd")) == Reason.DAMAGED


def test_a_method_that_takes_as_much_memory_as_it_wants_is_not_used() -> None:
    files = use(pack({"file-AbCd.png": png()}, zipfile.ZIP_LZMA))
    assert get_reason(files, picture("file-AbCd")) == Reason.DAMAGED


def test_what_was_read_of_a_damaged_file_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One damaged entry in very many messages would be unpacked for each of them."""
    monkeypatch.setattr(packed_files, "MAX_FILES_BYTES", 10_000)
    damaged = bytearray(pack({"file-AbCd.png": png() + bytes(10_000)}, zipfile.ZIP_STORED))
    damaged[damaged.index(b"IDAT") + 8] ^= 0xFF
    files = use(bytes(damaged))
    assert get_reason(files, picture("file-AbCd")) == Reason.DAMAGED
    assert get_reason(files, picture("file-AbCd")) == Reason.MANY


def test_what_is_not_there_counts_for_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "MAX_FILES", 1)
    files = use(to_zip({"file-AbCd.png": png()}))
    for _again in range(3):
        assert get_reason(files, picture("file-gone")) == Reason.MISSING
    assert files.read(picture("file-AbCd")) == png()


def test_a_file_that_is_read_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "MAX_FILES", 2)
    files = use(to_zip({"file-AbCd.png": png()}))
    one, other = picture("file-AbCd"), SourceFile(what="picture", encoded=data_uri(png()))
    assert files.read(one) == files.read_again(one) == files.read_again(other) == png()
    assert files.read(other) == png()
    assert get_reason(files, one) == Reason.MANY


def test_all_files_of_an_import_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_files, "MAX_FILES_BYTES", len(png()) + 1)
    files = use(to_zip({"file-AbCd.png": png()}))
    assert files.read(picture("file-AbCd")) == files.read(picture("file-AbCd")) == png()
    assert get_reason(files, picture("file-AbCd")) == Reason.MANY
    monkeypatch.setattr(packed_files, "MAX_FILES", 5)
    many = PackedFiles(count=5)
    assert get_reason(many, SourceFile(what="picture", encoded=data_uri(png()))) == Reason.MANY
