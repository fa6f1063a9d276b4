"""What tests of imports do: upload a file, let the worker read it, and import what is selected."""

import io

from chatapp.imports import import_acts, jobs
from chatapp.imports.import_acts import ReceivedFile
from chatapp.models import ChatImport, Conversation, Member


def read(person: Member, data: bytes, name: str = "export.json") -> ChatImport:
    """Upload a file and list its chats, as the worker does."""
    received = ReceivedFile(name=name, size=len(data), data=io.BytesIO(data))
    begun = import_acts.begin(person, received)
    jobs.read_file.func(str(begun.pk))
    return reload(begun)


def run(chat_import: ChatImport) -> ChatImport:
    """Import the selected chats, as the worker does."""
    import_acts.start(chat_import)
    jobs.import_selected.func(str(chat_import.pk))
    return reload(chat_import)


def reload(chat_import: ChatImport) -> ChatImport:
    return ChatImport.objects.get(pk=chat_import.pk)


def import_chat(person: Member, data: bytes) -> Conversation:
    """Import the one chat of a file."""
    done = run(read(person, data))
    assert (done.state, done.problem) == ("done", "")
    found = done.chats.get().conversation
    assert found is not None
    return found


def describe(
    conversation: Conversation,
) -> list[tuple[str, int | None, bool, list[tuple[str, str]]]]:
    """Return the messages in order: role, place of the one before, whether it is shown, parts."""
    messages = list(conversation.messages.order_by("created_seq"))
    places = {each.pk: place for place, each in enumerate(messages)}
    return [
        (
            each.role,
            places[each.parent_id] if each.parent_id else None,
            each.is_shown,
            [(part.kind, part.text) for part in each.parts.all()],
        )
        for each in messages
    ]
