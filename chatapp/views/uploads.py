"""Files that come with a form: kept as drafts of the person before anything else looks at it."""

from typing import Any

from django.conf import settings

from chatapp.models import Attachment
from chatapp.turns.refusals import Refused
from chatapp.turns.uploads import Upload, keep_file

from .access import MemberRequest

FIELD = "files"


def take_files(request: MemberRequest) -> tuple[list[Attachment], str]:
    """Keep the files of a form, and name them in it as drafts: what reads the form later finds
    them there. Returns them, and why others were not kept."""
    kept: list[Attachment] = []
    problems: list[str] = []
    received = request.FILES.getlist(FIELD)
    for file in received[: settings.MESSAGE_MAX_FILES]:
        try:
            kept.append(keep_file(request.user, _upload_of(file)))
        except Refused as refused:
            problems.append(refused.sentence)
    if len(received) > settings.MESSAGE_MAX_FILES:
        problems.append(
            f"Only {settings.MESSAGE_MAX_FILES} files were looked at: a message takes no more."
        )
    if kept:
        form = request.POST.copy()
        form.setlist("attachments", [*form.getlist("attachments"), *(str(k.pk) for k in kept)])
        request.POST = form  # type: ignore[assignment]  # what comes next reads the form from here
    return kept, " ".join(problems)


def _upload_of(file: Any) -> Upload:
    return Upload(name=file.name or "", size=file.size or 0, data=file.read())
