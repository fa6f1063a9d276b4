"""What models take beside text: what an admin or a list said of one, else what is known of its
provider. Sizes are of the files themselves, before they are encoded."""

import re
from dataclasses import dataclass
from typing import Final

MEGABYTE: Final = 1_000_000
PDF: Final = "application/pdf"
# Converse takes pictures of 3.75 MB and documents of 4.5 MB, Anthropic pictures of 5 MB in base64.
LARGEST_PICTURE = {"anthropic": 3_932_160, "bedrock": 3_750_000}
LARGEST_DOCUMENT = {"bedrock": 4_500_000}
LARGEST: Final = 20 * MEGABYTE
PICTURE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
GOOGLE_PICTURE_TYPES: Final = PICTURE_TYPES - {"image/gif"} | {"image/heic", "image/heif"}

# Beside these, a model of a provider takes a picture unless it refuses it; a PDF is for those that
# are known to read it, for most servers refuse the whole request.
_BLIND = {
    "openai": re.compile(r"gpt-3\.5|gpt-4(-0|-\d{4}|$)|o1-(mini|preview)|o3-mini|gpt-oss"),
    "google": re.compile(r"gemma-[12]\b"),
    "bedrock": re.compile(
        r"(?!.*(anthropic\.claude|amazon\.nova-(?!micro)|llama3-2-(11|90)b|llama4|pixtral))"
    ),
    "demo": re.compile(r""),
}
_BLIND["openai-chat"] = _BLIND["openai"]
_READS_PDF = {
    "openai": re.compile(r"(?!o1-|o3-mini|gpt-4-)(gpt-4o|gpt-4\.1|gpt-[5-9]|o[1-9])"),
    "anthropic": re.compile(r""),
    "google": re.compile(r"gemini|learnlm"),
    "bedrock": re.compile(r".*(anthropic\.claude|amazon\.nova-(?!micro))"),
}
_READS_PDF["openai-chat"] = _READS_PDF["openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The largest picture and PDF in bytes; 0 where none is taken."""

    picture_bytes: int = 0
    document_bytes: int = 0
    picture_types: frozenset[str] = PICTURE_TYPES

    def takes(self, media_type: str, size: int) -> bool:
        return size <= self.most(media_type)

    def most(self, media_type: str) -> int:
        """Text needs no ability."""
        if media_type == PDF:
            return self.document_bytes
        if media_type.startswith("image/"):
            return self.picture_bytes if media_type in self.picture_types else 0
        return LARGEST


def known_abilities(
    kind: str, model: str, *, pictures: bool | None = None, documents: bool | None = None
) -> Abilities:
    """Of a provider's model; what is said of it counts more than what is guessed by its name."""
    if pictures is None:
        pictures = not (kind in _BLIND and _BLIND[kind].match(model))
    if documents is None:
        documents = bool(kind in _READS_PDF and _READS_PDF[kind].match(model))
    return Abilities(
        picture_bytes=LARGEST_PICTURE.get(kind, LARGEST) if pictures else 0,
        document_bytes=LARGEST_DOCUMENT.get(kind, LARGEST) if documents else 0,
        picture_types=GOOGLE_PICTURE_TYPES if kind == "google" else PICTURE_TYPES,
    )
