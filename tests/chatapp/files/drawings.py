"""Pictures as people have them, and as nobody should."""

import io
import struct
import zlib

from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 160, 60), (30, 60, 200), (255, 255, 255)
CORNERS = [RED, GREEN, BLUE, WHITE]
CAMERA = "Plum-7f3c camera"
# How a camera that was held like this stores an upright picture, by the value of EXIF.
STORED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def draw(width: int = 300, height: int = 300) -> Image.Image:
    """Return a picture with a colour in each quarter, as in CORNERS."""
    image = Image.new("RGB", (width, height))
    for number, colour in enumerate(CORNERS):
        left, top = number % 2 * (width // 2), number // 2 * (height // 2)
        image.paste(colour, (left, top, left + width, top + height))
    return image


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def photograph(orientation: int, kind: str = "JPEG") -> bytes:
    """Return a wide picture with the metadata of a phone: how it was held, and where."""
    image = draw(500, 300)
    if (turn := STORED[orientation]) is not None:
        image = image.transpose(turn)
    exif = Image.Exif()
    exif[Base.Orientation] = orientation
    exif[Base.Model] = CAMERA
    exif.get_ifd(IFD.GPSInfo)[GPS.GPSLatitudeRef] = CAMERA
    return encode(image, kind, exif=exif.tobytes())


def read_corners(data: bytes) -> list[tuple[int, ...]]:
    """Return for each corner the colour of CORNERS that is nearest to that of the picture."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    far = image.width - 20
    found = [image.getpixel((left, top)) for top in (20, far) for left in (20, far)]
    return [min(CORNERS, key=lambda colour, at=each: _distance(colour, at)) for each in found]  # type: ignore[misc]


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def claim_png(width: int, height: int, *chunks: bytes) -> bytes:
    """Return a small PNG that says it has this size."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = _chunk(b"IDAT", zlib.compress(bytes(1_000)))
    return b"".join([b"\x89PNG\r\n\x1a\n", header, *chunks, pixels, _chunk(b"IEND", b"")])


def swell(megabytes: int) -> bytes:
    """Return a chunk of a PNG whose text is small here and unpacks to so many megabytes."""
    return _chunk(b"zTXt", b"note\x00\x00" + zlib.compress(bytes(megabytes * 1_000_000), 9))


def claim_gif_frame(width: int, height: int) -> bytes:
    """Return an animation of one pixel whose first frame says that it is this large."""
    small = encode(Image.new("P", (1, 1)), "GIF")
    place = small.index(b",\x00\x00\x00\x00\x01\x00\x01\x00") + 5
    return small[:place] + struct.pack("<HH", width, height) + small[place + 4 :]


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check
