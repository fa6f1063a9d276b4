"""The search in the files of a project: what it finds, for whom, and whether it is untrusted."""

import uuid
from typing import Any

import pytest
from django.utils import translation
from openpyxl import Workbook

from chatapp.models import Conversation, Member, Project, ProjectFile, ProjectPassage, Turn
from chatapp.projects import changes, files, members
from chatapp.projects.changes import ProjectValues
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.tools.catalogue import Catalogue
from chatapp.tools.context import Context, ToolError
from tests.chatapp.files.office_files import saved, slides
from tests.chatapp.files.papers import pdf
from tests.chatapp.tools.core.core_calls import ran

from .made import add_file, add_member, make_project


@pytest.fixture
def project(owner: Member) -> Project:
    return make_project(owner)


@pytest.fixture
def ada(owner: Member) -> Member:
    return Member.objects.create_user("ada")


def chat_in(project: Project | None, person: Member) -> Conversation:
    return Conversation.objects.create(owner=person, title="Chat", project=project)


def add_read_file(person: Member, project: Project, name: str, data: bytes) -> ProjectFile:
    """Add an office file, and do the task that reads it."""
    file = add_file(person, project, name, data)
    files.read_file(file.pk)
    return file


def search(person: Member, project: Project | None, words: str, **more: Any) -> dict[str, Any]:
    turn = Turn(conversation=chat_in(project, person))
    context = Context(person=person, catalogue=Catalogue(), turn=turn)
    return ran("search-files", context, {"words": words, **more})[1]


def found_texts(person: Member, project: Project, words: str, **more: Any) -> list[str]:
    return [each["text"] for each in search(person, project, words, **more)["found"]]


def test_a_passage_is_found_with_its_place_and_a_link(owner: Member, project: Project) -> None:
    file = add_file(owner, project)
    result = search(owner, project, "gateway seconds")
    [found] = result["found"]
    assert (found["file"], found["place"]) == ("runbook.md", "Gateway")
    assert "gives up after 30 seconds" in found["text"]
    assert found["link"] == f"/projects/{project.pk}/files/{file.pk}/#c1"
    assert (result["files"], result["tainted_by"]) == (1, "")


def test_rare_words_and_short_passages_come_first(owner: Member, project: Project) -> None:
    common = "The price of the tea is the price of the day. "
    add_file(owner, project, "a.txt", common * 25)
    add_file(owner, project, "b.txt", common * 25 + "It is about zinc.")
    add_file(owner, project, "c.txt", "The price of zinc.")
    for number in range(4):
        add_file(owner, project, f"more-{number}.txt", "The price of the day.")
    texts = found_texts(owner, project, "the price of zinc")
    assert texts[0] == "The price of zinc."
    assert texts[1].endswith("It is about zinc.")
    assert len(texts) >= 3


def test_a_word_finds_longer_ones_and_a_short_word_does_not(
    owner: Member, project: Project
) -> None:
    add_file(owner, project, "a.txt", "Timeouts are logged.")
    assert found_texts(owner, project, "timeout")
    assert not found_texts(owner, project, "ti")


def test_a_row_of_a_table_comes_with_the_names_of_its_columns(
    owner: Member, project: Project
) -> None:
    rows = [f"item {n},{n}" for n in range(300)]
    add_file(owner, project, "prices.csv", "\n".join(["article,price", *rows, "lemon,7"]))
    [found] = search(owner, project, "lemon")["found"]
    assert found["columns"] == "article,price"
    assert found["place"].startswith("Row ")


def test_rows_of_a_sheet_come_with_the_first_row_of_that_sheet(
    owner: Member, project: Project
) -> None:
    book = Workbook()
    book.active.title = "Sales"
    for name in ("Sales", "Costs"):
        sheet = book.active if name == "Sales" else book.create_sheet(name)
        sheet.append(["article", f"{name.lower()} of May"])
        for number in range(100):
            sheet.append([f"item {number}", f"{number} boxes of {name}"])
        sheet.append([f"lemon {name}", 7])
    add_read_file(owner, project, "prices.xlsx", saved(book))
    for name in ("Sales", "Costs"):
        [found] = [
            each
            for each in search(owner, project, "lemon")["found"]
            if f"lemon {name}" in each["text"]
        ]
        assert found["place"] == f"Sheet {name}"
        assert found["columns"] == f"| article | {name.lower()} of May |"
    [first] = search(owner, project, "sales may")["found"][:1]
    assert (first["place"], first["columns"]) == ("Sheet Sales", "")


def test_a_slide_is_named_in_the_language_of_the_reader(owner: Member, project: Project) -> None:
    file = add_read_file(owner, project, "plan.pptx", slides())
    [found] = search(owner, project, "sell")["found"]
    assert found["place"] == "Slide 1: Plan"
    passage = ProjectPassage.objects.get(file=file, number=1)
    with translation.override("de"):
        assert passage.describe_place() == "Folie 1: Plan"


def test_the_number_of_passages_is_bounded(owner: Member, project: Project) -> None:
    add_file(owner, project, "a.txt", "\n\n".join(f"tea {'x' * 1_100} {n}" for n in range(20)))
    assert len(search(owner, project, "tea")["found"]) == 5
    assert len(search(owner, project, "tea", limit=10)["found"]) == 10
    with pytest.raises(ToolError):
        search(owner, project, "tea", limit=11)


def test_files_of_another_project_are_never_found(owner: Member, project: Project) -> None:
    other = make_project(owner, "Hiring")
    secret = add_file(owner, other, "salaries.txt", "The gateway salary is secret.")
    add_file(owner, project)
    texts = found_texts(owner, project, "gateway salary secret")
    assert not any("salary" in each for each in texts)
    for planted in (str(secret.pk), secret.name, str(uuid.uuid4()), "' OR 1=1 --"):
        with pytest.raises(ToolError, match="no such file"):
            search(owner, project, "salary", file=planted)


def test_a_file_can_be_named_by_its_id_or_its_name(owner: Member, project: Project) -> None:
    file = add_file(owner, project)
    add_file(owner, project, "other.txt", "Another gateway.")
    for named in (str(file.pk), file.name):
        assert [each["file_id"] for each in search(owner, project, "gateway", file=named)["found"]]
        assert len(found_texts(owner, project, "gateway", file=named)) == 1


@pytest.mark.parametrize("words", ['"', "* OR NEAR(", "a' & !b:*", "%s", "\\", "{}"])
def test_what_looks_like_a_query_is_text(owner: Member, project: Project, words: str) -> None:
    add_file(owner, project)
    try:
        assert isinstance(search(owner, project, words)["found"], list)
    except ToolError as refused:
        assert refused.field == "words"


def test_what_others_added_is_untrusted_and_ones_own_is_not(
    owner: Member, ada: Member, project: Project
) -> None:
    add_member(project, ada)
    add_file(owner, project)
    assert search(owner, project, "gateway")["tainted_by"] == ""
    assert search(ada, project, "gateway")["tainted_by"] == "project file added by owner"
    owner_id = owner.pk
    ProjectFile.objects.update(added_by=None)
    assert (
        "former member" in search(Member.objects.get(pk=owner_id), project, "gateway")["tainted_by"]
    )


def test_no_membership_no_files(owner: Member, ada: Member, project: Project) -> None:
    add_file(owner, project)
    for chat_of in (project, None):
        with pytest.raises(ToolError, match="no project"):
            search(ada, chat_of, "gateway")
    add_member(project, ada)
    assert search(ada, project, "gateway")["found"]
    members.remove_member(project, ada.pk, owner)
    with pytest.raises(ToolError, match="no project"):
        search(ada, project, "gateway")


def test_a_program_finds_no_files(owner: Member, project: Project) -> None:
    add_file(owner, project)
    turn = Turn(conversation=chat_in(project, owner), token_id=uuid.uuid4())
    context = Context(person=owner, catalogue=Catalogue(), turn=turn)
    with pytest.raises(ToolError, match="no project"):
        ran("search-files", context, {"words": "gateway"})


def test_an_archived_or_deleted_project_is_not_searched(owner: Member, project: Project) -> None:
    add_file(owner, project)
    changes.archive(project, is_on=True)
    with pytest.raises(ToolError, match="no project"):
        search(owner, project, "gateway")
    changes.archive(project, is_on=False)
    assert search(owner, project, "gateway")["found"]
    changes.delete(project)
    with pytest.raises(ToolError, match="no project"):
        search(owner, project, "gateway")


def test_a_deleted_file_is_not_found(owner: Member, project: Project) -> None:
    file = add_file(owner, project)
    add_file(owner, project, "other.txt", "Another text.")
    files.delete_file(owner, project, file.pk)
    assert not ProjectPassage.objects.filter(file=file.pk).exists()
    assert not search(owner, project, "gateway")["found"]


def test_a_pdf_is_read_later_and_cited_by_page(owner: Member, project: Project) -> None:
    file = add_file(owner, project, "paper.pdf", pdf("Nothing here", "The zinc page"))
    assert file.state == ProjectFile.State.READING
    with pytest.raises(ToolError):
        search(owner, project, "zinc", file=file.name)
    files.read_file(file.pk)
    [found] = search(owner, project, "zinc")["found"]
    assert found["place"] == "Page 2"
    file.refresh_from_db()
    assert (file.state, file.pages) == (ProjectFile.State.READY, 2)


def test_the_instructions_of_an_editor_are_the_editors(owner: Member, project: Project) -> None:
    values = ProjectValues(name="Checkout", instructions="Times are UTC.\u202e")
    changes.change_project(owner, project, values)
    project.refresh_from_db()
    assert (project.instructions, project.instructions_by) == ("Times are UTC.", owner)


def test_in_an_answer_only_the_link_of_a_passage_is_a_relative_link(
    owner: Member, project: Project
) -> None:
    add_file(owner, project)
    [found] = search(owner, project, "gateway")["found"]
    assert f'href="{found["link"]}"' in render_markdown(f"[runbook.md]({found['link']})")
    for other in (
        "/sign-out/",
        f"/projects/{project.pk}/delete",
        f"{found['link']}/../x",
        "//a/#c1",
    ):
        assert "href" not in render_markdown(f"[runbook.md]({other})")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Edit /etc/nginx/proxy.conf first.", "proxy"),
        ("Open intranet.example.com/rota today.", "rota"),
        ("Built on 2024-11-28.", "28"),
        ('<item name="zinc">5</item>', "zinc"),
        ("max_connections=500", "connections 500"),
        ("Die Hauptstraße ist gesperrt.", "Hauptstraße"),
        ("DER GROẞE SAAL", "große"),
    ],
)
def test_words_are_found_where_they_are_written(
    owner: Member, project: Project, text: str, words: str
) -> None:
    """PostgreSQL takes a path, an address or a date as one word, unless its parts are separated."""
    add_file(owner, project, "a.txt", text)
    assert found_texts(owner, project, words) == [text]
