"""What a person may want from the demo assistant, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListNotes:
    """List the notes; `reads_all` asks to read each of them then."""

    reads_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchNotes:
    """Find notes; `reads_found` asks to read what was found then."""

    words: str
    reads_found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNotes:
    titles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNote:
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendToNote:
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteNotes:
    titles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchArchive:
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLockedNote:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One tool by its exact id. `arguments` is what the person wrote, which need not be JSON."""

    tool_id: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseTools:
    """Tools by id: those of one round together, the rounds one after another."""

    rounds: tuple[tuple[Use, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkAbout:
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowEverything:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTools:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForHelp:
    """The person asked for help, or said something that the script does not know."""


Wish = (
    ListNotes
    | SearchNotes
    | ReadNotes
    | CreateNote
    | AppendToNote
    | DeleteNotes
    | SearchArchive
    | ReadLockedNote
    | UseTools
    | ThinkAbout
    | ShowEverything
    | ListTools
    | AskForHelp
)
