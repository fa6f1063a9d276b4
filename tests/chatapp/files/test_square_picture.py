"""Pictures become small upright squares without metadata, in a process of its own."""

import base64
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from chatapp.files import reader
from chatapp.files.reader import PICTURE_BYTES, PICTURE_SIDE, Unreadable, make_square_picture

from .drawings import (
    CAMERA,
    CORNERS,
    claim_gif_frame,
    claim_png,
    draw,
    encode,
    photograph,
    read_corners,
    swell,
)

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'


def open_made(data: bytes) -> Image.Image:
    """Return the picture that is made of this one."""
    made = make_square_picture(data)
    assert len(made) <= PICTURE_BYTES
    image = Image.open(io.BytesIO(made))
    assert (image.format, image.size) == ("WEBP", (PICTURE_SIDE, PICTURE_SIDE))
    return image


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_upright_and_says_nothing_of_where_it_was_taken(orientation: int) -> None:
    photo = photograph(orientation)
    assert CAMERA.encode() in photo
    made = make_square_picture(photo)
    assert read_corners(made) == CORNERS
    assert CAMERA.encode() not in made
    image = Image.open(io.BytesIO(made))
    assert not image.getexif()
    assert not {"exif", "xmp", "icc_profile"} & set(image.info)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_other_kinds_with_an_orientation_are_upright_too(kind: str) -> None:
    made = make_square_picture(photograph(6, kind))
    assert read_corners(made) == CORNERS
    assert CAMERA.encode() not in made


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_each_kind_of_pixels_is_read(mode: str) -> None:
    image = Image.new(mode, (40, 90), 0 if mode != "I;16" else 40_000)
    made = open_made(encode(image))
    assert (made.mode == "RGBA") == (mode in ("LA", "RGBA"))
    level = made.convert("L").getpixel((90, 90))
    assert level == pytest.approx(156 if mode == "I;16" else 0, abs=3)


def test_the_first_frame_of_an_animation_is_taken() -> None:
    frames = [draw(), Image.new("RGB", (300, 300))]
    for kind in ("GIF", "WEBP", "PNG"):
        data = encode(frames[0], kind, save_all=True, append_images=frames[1:])
        assert read_corners(make_square_picture(data)) == CORNERS


def test_a_wide_and_a_tiny_picture_are_squares_too() -> None:
    wide = draw(900, 300)
    wide.paste((0, 0, 0), (0, 0, 300, 300))
    wide.paste((0, 0, 0), (600, 0, 900, 300))
    assert read_corners(make_square_picture(encode(wide))) == CORNERS
    open_made(encode(Image.new("RGB", (1, 2))))
    open_made(claim_png(10, 10))


def test_noise_is_small_enough_too() -> None:
    noise = Image.effect_noise((192, 192), 250)
    open_made(encode(Image.merge("RGBA", [noise.rotate(turn) for turn in (0, 90, 180, 270)])))


# Threat: `picture-bomb`.
@pytest.mark.parametrize(
    "data",
    [
        claim_png(30_000, 30_000),
        encode(Image.new("1", (8_000, 8_000))),
        encode(Image.new("1", (7_100, 7_100))),
        claim_gif_frame(30_000, 30_000),
        encode(Image.new("RGB", (16_383, 4_000)), "WEBP", method=0),
    ],
    ids=["claimed", "compressed", "a little too large", "frame", "webp"],
)
def test_more_pixels_than_the_limit_are_refused_with_the_limit(data: bytes) -> None:
    with pytest.raises(Unreadable, match="more than 50 million pixels"):
        make_square_picture(data)


@pytest.mark.parametrize(
    "data",
    [
        claim_png(300, 300),
        claim_png(0, 300),
        claim_png(10, 10, swell(50)),
        photograph(1)[:-400],
        encode(draw(), "GIF")[:200],
        encode(draw(), "WEBP")[:-100],
        encode(draw())[:-100],
        encode(draw(), "BMP"),
        SVG,
        b"",
    ],
    ids=[
        *("no pixels", "no width", "text bomb", "cut jpeg", "cut gif", "cut webp", "cut png"),
        *("bmp", "svg", "nothing"),
    ],
)
def test_a_damaged_or_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="The picture is damaged. Choose another one."):
        make_square_picture(data)


def test_a_photo_with_broken_metadata_is_taken_as_it_is() -> None:
    photo = encode(draw(), "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\xff\xff")
    assert read_corners(make_square_picture(photo)) == CORNERS


def test_a_picture_that_takes_too_long_is_stopped(settings: object) -> None:
    settings.FILE_READ_SECONDS = 0.001  # type: ignore[attr-defined]
    with pytest.raises(Unreadable, match="damaged"):
        make_square_picture(encode(draw()))


def test_a_picture_does_not_wait_for_other_files_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WAIT_SECONDS", 0)
    with reader._AT_ONCE, reader._AT_ONCE, pytest.raises(Unreadable, match="reading other files"):
        make_square_picture(encode(draw()))
    open_made(encode(draw()))


@pytest.mark.parametrize(
    "answer",
    [
        {"picture": base64.b64encode(SVG).decode()},
        {"picture": base64.b64encode(b"RIFF....WEBP" + bytes(PICTURE_BYTES)).decode()},
        {"picture": "not base64"},
        {"picture": None},
    ],
    ids=["svg", "large", "text", "nothing"],
)
def test_what_a_process_that_was_taken_over_answers_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: object
) -> None:
    child = tmp_path / "child.py"
    child.write_text(f"print({json.dumps(json.dumps(answer))})")
    monkeypatch.setattr(reader, "CHILD", child)
    with pytest.raises(Unreadable, match="damaged"):
        make_square_picture(encode(draw()))


def test_the_server_itself_never_imports_pillow() -> None:
    code = (
        "import sys; import chatapp.asgi, chatapp.urls; from chatapp.files import reader; "
        "picture = sys.stdin.buffer.read(); made = reader.make_square_picture(picture); "
        "print(len(made) > 50, 'PIL' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=encode(draw()),
        capture_output=True,
        timeout=120,
        check=True,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": ""},
    )
    assert ran.stdout.split() == [b"True", b"False"]
