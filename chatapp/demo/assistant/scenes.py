"""The sentences that the demo assistant understands, and the tool or the page for each."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from chatapp.providers.request import AskedTool

from .texts import HELP, QUESTIONS, THOUGHTS, TOOLS, TOUR

MAX_TITLES = 8
# Some patterns take quadratic time on text made to confuse them. No plain request is longer.
SENTENCE_MAX_CHARACTERS = 2_000

QUOTED = r'“[^”]+”|"[^"]+"'
NOTES = "(?:the |my |all |all my )?(?:notes?|notebook)"
NOTE = "(?:the |my )?(?:notes? )?(?:called )?"
FIND_NOTES = f"(find|search) {NOTES} (about|for) <query>"
PREAMBLE = r"(?i)\A(\s*@[\w./-]+[\s,:]*|(hi|hello|now|please|(can|could) you)\b[\s,!.]*)*"
BETWEEN_TITLES = rf"(?i)({QUOTED})|(?:\s*,\s*(?:and\s+)?|\s+and\s+){NOTE}"
USE = re.compile(
    r"[\s,;]*(and\s+)?(?P<then>then\s+)?((use|call)\s+)?(the\s+)?(tool\s+)?"
    r"(?P<tool_id>[a-z_][\w.-]*_[\w.-]*)(\s+with\b)?\s*",
    re.IGNORECASE,
)

Round = tuple[AskedTool, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """A kind of sentence, and what it asks for: calls of a tool, or else a page of text.

    `<name>` in the pattern is an argument of the tool, added to `arguments`, except that `<titles>`
    makes one call for each title, and `<steps>` makes a plan and ticks each step. `reads_found`
    reads the notes in the result of the first call next. `reasoning` is said before the call.
    """

    pattern: str
    tool_id: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    reads_found: bool = False
    reasoning: str = ""
    page: str = HELP

    def match(self, sentence: str) -> dict[str, str] | None:
        """Return the named parts of the sentence, or None if it does not fit as a whole."""
        pattern = re.sub(r"(?<!P)<(\w+)>", rf"(?P<\1>{QUOTED}|.+?)", self.pattern)
        found = re.fullmatch(rf"(?is)({pattern})(,? please)?[\s.!?]*", sentence)
        return {name: text for name, text in found.groupdict().items() if text} if found else None


# The first scene that fits is used.
SCENES = (
    Scene("show (me )?everything( you can do)?", page=TOUR),
    Scene(r"(what|which|list|show)( me)? ?(all )?(the |your |my )?tools\b.*", page=TOOLS),
    Scene(
        r"think( hard)? about (.*\W)?(?P<query>\w+)", "notebook_search_notes", reasoning=THOUGHTS
    ),
    Scene("(read|open) the locked note", "notebook_read_locked_note"),
    Scene("search the archive for <query>", "notebook_search_archive"),
    Scene(
        f"{FIND_NOTES},? (and|then|and then) (read|open) (it|them|those)",
        "notebook_search_notes",
        reads_found=True,
    ),
    Scene(FIND_NOTES, "notebook_search_notes"),
    Scene(f"(read|open) (all|every) {NOTES}", "notebook_list_notes", reads_found=True),
    Scene(rf"(what|which) notes\b.*|(list|show)( me)? {NOTES}", "notebook_list_notes"),
    Scene(
        r"(create|make|write|add) a (new )?note (called )?<title>(\s*:\s*(?P<text>.+))?",
        "notebook_create_note",
        {"text": ""},
    ),
    Scene(f"(add|append) (?P<text>.+) to {NOTE}<title>", "notebook_append_to_note"),
    Scene(f"delete {NOTE}<titles>", "notebook_delete_note"),
    Scene("make a plan:? <steps>", "make-plan"),
    Scene("what('s| is| time is) (the time|it)( in <zone>)?", "current-time", {"zone": "UTC"}),
    Scene("remember( that|:)? <text>", "remember"),
    Scene("what do you (remember|know)( about (me|<words>))?", "recall", {"words": ""}),
    Scene("ask me( something| a question| some questions)?", "ask-person", QUESTIONS),
    Scene("search my (chats|conversations) for <words>", "search-conversations"),
    Scene("(which|what|list) services( are there)?", "list-services"),
    Scene(f"(read|open)( me)? {NOTE}<titles>", "notebook_read_note"),
)
OTHERWISE = Scene("")


def understand(text: str) -> tuple[Scene, tuple[Round, ...]]:
    """Return the scene of this text, and its rounds of calls, one after another."""
    sentence = re.sub(PREAMBLE, "", text.strip())
    if len(sentence) <= SENTENCE_MAX_CHARACTERS:
        for scene in SCENES:
            if (parts := scene.match(sentence)) is not None:
                return scene, build_rounds(scene, parts)
    return OTHERWISE, read_uses(sentence)


def build_rounds(scene: Scene, parts: dict[str, str]) -> tuple[Round, ...]:
    match parts:
        case {"titles": titles}:
            return (tuple(build_call(scene.tool_id, title=each) for each in split_titles(titles)),)
        case {"steps": text}:
            steps = split_titles(text)
            plan: list[dict[str, Any]] = [{"steps": steps, "doing": 1}]
            plan += [{"done": [n], "doing": n + 1} for n in range(1, len(steps))]
            plan += [{"done": [len(steps)]}]
            return tuple((build_call(scene.tool_id, **each),) for each in plan)
    given = {name: remove_quotes(text) for name, text in parts.items()}
    return ((build_call(scene.tool_id, **scene.arguments | given),),) if scene.tool_id else ()


def build_call(tool_id: str, **arguments: Any) -> AskedTool:
    """Build a call that has no id yet."""
    return AskedTool(call_id="", name=tool_id, arguments=json.dumps(arguments, ensure_ascii=False))


def split_titles(text: str) -> list[str]:
    """Return the titles of an enumeration. Quotes hide the commas and the *and* of a title."""
    titles = (remove_quotes(piece or "") for piece in re.split(BETWEEN_TITLES, text))
    return list(dict.fromkeys(filter(None, titles)))[:MAX_TITLES]


def remove_quotes(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if re.fullmatch(QUOTED, text) else text


def read_uses(text: str) -> tuple[Round, ...]:
    """Read `use a_b {"x": 1} and c_d {} then e_f {}`: *and* joins a round, *then* begins one."""
    rounds: list[list[AskedTool]] = [[]]
    position = 0 if text.lower().startswith(("use ", "call ")) else len(text)
    while found := USE.match(text, position):
        start = position = found.end()
        if text.startswith("{", start):
            try:
                _, position = json.JSONDecoder().raw_decode(text, start)
            except (ValueError, RecursionError):
                # Unreadable arguments are passed on, to show how the application handles them.
                position = len(text)
        if found["then"]:
            rounds.append([])
        arguments = text[start:position] or "{}"
        rounds[-1].append(AskedTool(call_id="", name=found["tool_id"], arguments=arguments))
    return tuple(tuple(calls) for calls in rounds if calls)
