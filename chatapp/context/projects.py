"""The project of a turn: what its instructions add to the system prompt, and whether it has files.

It is read again before each model call, so that a person who is no longer a member, and a project
that was archived or deleted, add nothing from then on.
"""

import uuid
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from chatapp.models import Conversation, Member, Project, ProjectFile, Turn
from chatapp.server.compiled_queries import compiled


def find_project_of(conversation: Conversation) -> Project | None:
    """Return the project of this chat if it counts for the chat's person now. A chat without one
    needs no statement."""
    if conversation.project_id is None:
        return None
    return _find_project.first(conversation.owner_id, conversation.project_id)


def find_project_of_turn(turn: Turn) -> Project | None:
    """Do the same for a turn. A program brings its own instructions and finds no files."""
    return None if turn.is_of_program else find_project_of(turn.conversation)


def has_files(project: Project | None) -> bool:
    return project is not None and bool(getattr(project, "has_ready_files", False))


@compiled
def _find_project(person_id: int, project_id: uuid.UUID) -> QuerySet[Project, Any]:
    ready = ProjectFile.objects.filter(project=OuterRef("pk"), state=ProjectFile.State.READY)
    active = Project.filter_active(Member(pk=person_id)).filter(pk=project_id)
    return active.annotate(has_ready_files=Exists(ready))
