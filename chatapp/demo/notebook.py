"""The demo service: an MCP server over a notebook in the database."""

import functools
import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio
from django.conf import settings
from django.db import IntegrityError, close_old_connections
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from chatapp.models import Note
from mcpconfig.values.version import VERSION

from .archive import VOLUMES

# The time of the slow tool for one volume of the archive.
ARCHIVE_VOLUME_SECONDS = 1.2

Given = ParamSpec("Given")
Returned = TypeVar("Returned")

Title = Annotated[
    str, Field(min_length=1, max_length=Note.TITLE_MAX, description="A note's title.")
]
Words = Annotated[str, Field(min_length=1, max_length=200, description="Words to look for.")]


class NoteLine(BaseModel):
    """A note in a list."""

    title: str
    excerpt: str
    changed_at: datetime


class NoteLines(BaseModel):
    notes: list[NoteLine]


class WholeNote(BaseModel):
    title: str
    text: str
    changed_at: datetime


class DeletedNote(BaseModel):
    """What was deleted, in full, because no other copy is left."""

    title: str
    deleted_text: str


class ArchiveLine(BaseModel):
    volume: str
    line: str


class ArchiveLines(BaseModel):
    volumes_searched: int
    found: list[ArchiveLine]


def close_connections(tool: Callable[Given, Returned]) -> Callable[Given, Returned]:
    """Close database connections after a tool: Django's signals do not reach the SDK's threads."""

    @functools.wraps(tool)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
        close_old_connections()
        try:
            return tool(*args, **kwargs)
        finally:
            close_old_connections()

    return run


def get_note(title: str) -> Note:
    note = Note.find(title)
    if note is None:
        raise ToolError(f"title: no note is called “{title}”. list_notes tells what there is.")
    return note


def build_line(note: Note, about: str = "") -> NoteLine:
    return NoteLine(title=note.title, excerpt=note.excerpt(about=about), changed_at=note.changed_at)


def build_whole_note(note: Note) -> WholeNote:
    return WholeNote(title=note.title, text=note.text, changed_at=note.changed_at)


@close_connections
def list_notes() -> NoteLines:
    """Lists all notes of the demo notebook with their first line."""
    return NoteLines(notes=[build_line(note) for note in Note.objects.all()])


@close_connections
def read_note(title: Title) -> WholeNote:
    """Reads one note in full. Capital letters in the title do not matter."""
    return build_whole_note(get_note(title))


@close_connections
def search_notes(query: Words) -> NoteLines:
    """Finds the notes whose title or text has every word of the query."""
    if not query.strip():
        raise ToolError("query: needs at least one word.")
    return NoteLines(notes=[build_line(note, about=query) for note in Note.search(query)])


@close_connections
def create_note(
    title: Title,
    text: Annotated[str, Field(max_length=Note.TEXT_MAX, description="Its text, Markdown.")] = "",
) -> WholeNote:
    """Creates a note. It never replaces one: a title that is taken is an error."""
    title = " ".join(title.split())
    if not title:
        raise ToolError("title: must not be blank.")
    if Note.find(title):
        raise ToolError(f"title: a note called “{title}” exists. append_to_note adds to it.")
    if Note.objects.count() >= Note.NOTES_MAX:
        raise ToolError(f"The notebook is full: it holds {Note.NOTES_MAX} notes. Delete one first.")
    try:
        return build_whole_note(Note.objects.create(title=title, text=text))
    except IntegrityError:
        raise ToolError(f"title: a note called “{title}” was made this moment.") from None


@close_connections
def append_to_note(
    title: Title,
    text: Annotated[str, Field(min_length=1, max_length=2_000, description="The line to add.")],
) -> WholeNote:
    """Adds a line at the end of a note and returns the whole note."""
    note = get_note(title)
    if not note.append(text):
        raise ToolError(f"text: “{note.title}” would grow beyond {Note.TEXT_MAX} characters.")
    return build_whole_note(note)


@close_connections
def delete_note(title: Title) -> DeletedNote:
    """Deletes a note for good. Returns the text that it had."""
    note = get_note(title)
    note.delete()
    return DeletedNote(title=note.title, deleted_text=note.text)


async def search_archive(query: Words, ctx: Context[Any, Any]) -> ArchiveLines:
    """Searches the notebook's old volumes one by one. Takes seconds and reports progress."""
    if not query.strip():
        raise ToolError("query: needs at least one word.")
    found: list[ArchiveLine] = []
    for number, volume in enumerate(VOLUMES, start=1):
        await ctx.report_progress(number - 1, len(VOLUMES), f"Reading {volume.name}")
        await anyio.sleep(ARCHIVE_VOLUME_SECONDS)
        found += [ArchiveLine(volume=volume.name, line=line) for line in volume.lines_about(query)]
    await ctx.report_progress(len(VOLUMES), len(VOLUMES), "All volumes read")
    return ArchiveLines(volumes_searched=len(VOLUMES), found=found)


def read_locked_note() -> str:
    """Tries to read the locked note. Always fails, to show what a failing tool looks like."""
    raise ToolError("The note “Diary” is locked and the demo has no key to it.")


READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
DELETES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
TOOLS: tuple[tuple[Callable[..., Any], str, ToolAnnotations], ...] = (
    (list_notes, "List notes", READS),
    (read_note, "Read a note", READS),
    (search_notes, "Search notes", READS),
    (create_note, "Create a note", ADDS),
    (append_to_note, "Add to a note", ADDS),
    (delete_note, "Delete a note", DELETES),
    (search_archive, "Search the archive (slow)", READS),
    (read_locked_note, "Read the locked note (fails)", READS),
)


def notebook_server() -> MCPServer:
    """Return a new server with all tools. Each loop needs one: the SDK runs a server once."""
    server = MCPServer(
        "countersign-demo-notebook",
        title="Demo notebook",
        description="A demo service: a small notebook that ships with the application.",
        version=VERSION,
        debug=settings.DEBUG,
        log_level="WARNING",
    )
    for tool, title, annotations in TOOLS:
        server.add_tool(
            tool, title=title, description=inspect.getdoc(tool), annotations=annotations
        )
    return server
