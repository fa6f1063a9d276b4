"""The text of a presentation: each slide with its title, text, tables and notes. Only the reader's
child process imports it."""

import io
from collections.abc import Iterator
from typing import Any

from pptx.opc.package import PartFactory
from pptx.package import Package
from pptx.parts.presentation import PresentationPart

from chatapp.files.markdown_tables import escape_cell, render_table


def open_file(data: bytes, main_type: str) -> "Slides":
    # The library knows the types of presentations only, not of templates and slide shows.
    PartFactory.part_type_for[main_type] = PresentationPart
    return Slides(Package.open(io.BytesIO(data)).presentation_part.presentation)


class Slides:
    rows = 0

    def __init__(self, presentation: Any) -> None:
        self._slides = presentation.slides
        self.pages = len(self._slides)

    def iterate_pieces(self) -> Iterator[str]:
        for number, slide in enumerate(self._slides, start=1):
            title = slide.shapes.title
            words = " ".join(title.text_frame.text.split()) if title is not None else ""
            hidden = " (hidden)" if slide._element.get("show") == "0" else ""
            yield f"## Slide {number}{hidden}{': ' if words else ''}{words}"
            for shape in slide.shapes:
                if title is None or shape.shape_id != title.shape_id:
                    yield from filter(None, _iterate_texts(shape))
            frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
            if frame is not None and frame.text.strip():
                yield f"Notes: {frame.text.strip()}"


def _iterate_texts(shape: Any) -> Iterator[str]:
    if hasattr(shape, "shapes"):
        for each in shape.shapes:
            yield from _iterate_texts(each)
    elif shape.has_text_frame:
        lines = [(each.level, each.text.strip()) for each in shape.text_frame.paragraphs]
        filled = [(level, text) for level, text in lines if text]
        if len(filled) == 1:
            yield filled[0][1]
        else:
            yield "\n".join(f"{'  ' * level}- {text}" for level, text in filled)
    elif getattr(shape, "has_table", False):
        yield render_table([[escape_cell(c.text) for c in row.cells] for row in shape.table.rows])
