"""Projects, members and files as tests make them."""

from chatapp.conversations.uploads import Upload
from chatapp.models import Member, Project, ProjectFile
from chatapp.projects import changes, files, members
from chatapp.projects.changes import ProjectValues

RUNBOOK = (
    "# Gateway\n\nThe gateway gives up after 30 seconds. Restart it with care.\n\n"
    "# Database\n\nThe database is vacuumed at night."
)


def make_project(owner: Member, name: str = "Checkout", **values: object) -> Project:
    made = changes.create_project(owner, ProjectValues(name=name, **values))  # type: ignore[arg-type]
    return Project.of(owner, made.pk)


def add_member(project: Project, person: Member, role: str = "member") -> None:
    members.add_member(project, person.username, role)


def add_file(
    person: Member, project: Project, name: str = "runbook.md", data: bytes | str = RUNBOOK
) -> ProjectFile:
    content = data.encode() if isinstance(data, str) else data
    return files.add_file(person, project, Upload(name=name, size=len(content), data=content))
