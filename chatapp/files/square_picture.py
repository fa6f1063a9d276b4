"""A picture as a small square that is encoded again, so that nothing but its pixels is left. Only
the reader's child process imports it."""

import base64
import contextlib
import io
import warnings

from PIL import GifImagePlugin, Image, ImageOps, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

FORMATS = [
    GifImagePlugin.GifImageFile.format,
    JpegImagePlugin.JpegImageFile.format,
    PngImagePlugin.PngImageFile.format,
    WebPImagePlugin.WebPImageFile.format,
]
QUALITIES = (85, 70, 50, 30, 10, 1)


def read(data: bytes, most_pixels: int, side: int, most_bytes: int) -> dict[str, object]:
    """Return the picture as WebP with `side` pixels on each side."""
    # Pillow warns above this number, and raises only above twice as many.
    Image.MAX_IMAGE_PIXELS = most_pixels
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            small = _shrink(image, side)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError, MemoryError):
        return {"problem": "many_pixels"}
    return {"picture": base64.b64encode(_encode(small, most_bytes)).decode()}


def _shrink(image: Image.Image, side: int) -> Image.Image:
    """Return the middle of the first frame, upright."""
    # Only JPEG has smaller copies of itself. Other formats ignore this.
    image.draft(None, (2 * side, 2 * side))
    image.load()
    if image.mode.startswith("I"):
        # Of 16 bits for each pixel, a conversion would keep the low ones.
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    pixels = image.convert("RGBA" if image.has_transparency_data else "RGB")
    edge = min(pixels.size)
    left, top = (pixels.width - edge) / 2, (pixels.height - edge) / 2
    box = (left, top, left + edge, top + edge)
    small = pixels.resize((side, side), Image.Resampling.LANCZOS, box)
    # A picture with broken metadata stays as it is.
    with contextlib.suppress(Exception):
        small = ImageOps.exif_transpose(small)
    small.info.clear()
    return small


def _encode(image: Image.Image, most_bytes: int) -> bytes:
    """Return the best quality that has at most so many bytes, or the smallest."""
    data = b""
    for quality in QUALITIES:
        target = io.BytesIO()
        image.save(target, "WEBP", quality=quality, alpha_quality=quality, method=4)
        data = target.getvalue()
        if len(data) <= most_bytes:
            break
    return data
