"""The messages of a chat as a tree. A branch is a way from the first message to one that nothing
follows; on it, messages are in the order in which they were created."""

import uuid
from collections import defaultdict

from .conversation import Message


def find_branch(conversation_id: uuid.UUID, message_id: uuid.UUID) -> set[uuid.UUID]:
    """Return the messages up to this one, and from there the newest ones. Raises
    Message.DoesNotExist."""
    rows = Message.objects.filter(conversation=conversation_id).order_by("created_seq")
    parents: dict[uuid.UUID, uuid.UUID | None] = {}
    children: dict[uuid.UUID | None, list[uuid.UUID]] = defaultdict(list)
    for pk, parent in rows.values_list("pk", "parent_id"):
        parents[pk] = parent
        children[parent].append(pk)
    if message_id not in parents:
        raise Message.DoesNotExist
    branch: set[uuid.UUID] = set()
    before: uuid.UUID | None = message_id
    while before is not None:
        branch.add(before)
        before = parents[before]
    latest = message_id
    while following := children[latest]:
        latest = following[-1]
        branch.add(latest)
    return branch
