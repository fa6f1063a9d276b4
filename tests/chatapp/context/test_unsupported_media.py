"""A model that cannot look at a file gets words in its place, and the person is told."""

import base64
from dataclasses import replace

import pytest

from chatapp.context.unsupported_media import (
    describe_unsupported,
    note_unsupported,
    replace_unsupported,
)
from chatapp.conversations import intake
from chatapp.conversations.uploads import Upload, keep_file
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import ChatModel, Member, ModelProvider, Part, Turn
from chatapp.providers.access.model_choice import choose_model
from chatapp.providers.events import FilesLeftOut, ToolsLeftOut
from chatapp.providers.model_facts import find_abilities
from chatapp.providers.provider import Abilities
from chatapp.providers.request import AssistantMessage, HistoryItem, Media, SaidText
from chatapp.providers.request import ToolOutcome as Outcome
from chatapp.providers.request import UserMessage as Question
from chatapp.server.database import in_database
from tests import scripted
from tests.chatapp.engine.test_missing_notices import notes
from tests.chatapp.files.papers import pdf
from tests.turns import rows
from tests.turns.acts import wait_for_rest

DOT = Media(media_type="image/png", base64=base64.b64encode(b"x" * 90).decode(), name="dot.png")
PLAN = Media(media_type="application/pdf", base64="JVBERi0=", name="plan.pdf", words="[It says 40]")
SEEN = Media(media_type="image/png", base64="eA==")
SEES_ALL = Abilities(picture_bytes=1_000, document_bytes=1_000)
SEES_NONE = Abilities()
ASKED = Question(text="Look", media=(DOT, PLAN))
RESULT = Outcome(call_id="c", name="n", text="Here", media=(SEEN,))
ANSWER = AssistantMessage(parts=(SaidText(text="Well"),))
OPAQUE = {"provider": "google", "data": {"thought_signature": "c2ln"}}
DRAWN = AssistantMessage(
    parts=(SaidText(text="Here:"), SaidText(text="[dot.png]", opaque=OPAQUE, picture=DOT))
)

KNOWN: dict[tuple[str, str], tuple[bool, bool]] = {
    ("openai", "gpt-6-sol"): (True, True),
    ("openai", "o3-mini"): (False, False),
    ("openai", "gpt-4-0613"): (False, False),
    ("openai-chat", "gpt-4o"): (True, True),
    ("openai-chat", "llama3.2-vision"): (True, False),
    ("anthropic", "claude-sonnet-5-5"): (True, True),
    ("google", "gemini-4-argon"): (True, True),
    ("google", "gemma-2-9b"): (False, False),
    ("bedrock", "eu.anthropic.claude-sonnet-5-5-v1:0"): (True, True),
    ("bedrock", "amazon.nova-pro-v1:0"): (True, True),
    ("bedrock", "amazon.nova-micro-v1:0"): (False, False),
    ("bedrock", "us.meta.llama3-2-90b-instruct-v1:0"): (True, False),
    ("bedrock", "cohere.command-r-v1:0"): (False, False),
    ("demo", "assistant"): (False, False),
}


@pytest.mark.parametrize(("model", "takes"), KNOWN.items())
def test_what_is_known_of_models_is_careful(
    model: tuple[str, str], takes: tuple[bool, bool]
) -> None:
    found = find_abilities(*model)
    assert (found.picture_bytes > 0, found.document_bytes > 0) == takes


@pytest.mark.parametrize("said", [True, False])
def test_what_an_admin_says_counts_more(said: bool) -> None:
    for model in KNOWN:
        found = find_abilities(*model, pictures=said, documents=said)
        assert (found.picture_bytes > 0, found.document_bytes > 0) == (said, said)


def test_providers_differ_in_what_is_too_large() -> None:
    sizes = {kind: find_abilities(kind, "x", pictures=True) for kind in ("anthropic", "google")}
    assert not sizes["anthropic"].takes("image/png", 4_000_000)
    assert sizes["google"].takes("image/png", 4_000_000)
    assert sizes["anthropic"].takes("text/plain", 4_000_000)


def test_what_a_model_takes_stays_as_it_is() -> None:
    history = (ASKED, ANSWER, RESULT)
    assert replace_unsupported(SEES_ALL, history) == history


def test_what_it_does_not_take_is_replaced_by_words() -> None:
    question, answer, result = replace_unsupported(SEES_NONE, (ASKED, ANSWER, RESULT))
    assert isinstance(question, Question) and isinstance(result, Outcome)
    assert (question.media, result.media, answer) == ((), (), ANSWER)
    assert question.text == (
        "Look\n\n[Left out, because this model cannot take it: “dot.png”]\n\n"
        "[Left out, because this model cannot take it: “plan.pdf”]\n\n[It says 40]"
    )
    assert result.text.endswith("a file (image/png)]")


def test_a_picture_that_a_model_made_goes_only_to_a_model_that_takes_it() -> None:
    assert replace_unsupported(SEES_ALL, (DRAWN,)) == (DRAWN,)
    for abilities in SEES_NONE, Abilities(picture_bytes=50, document_bytes=1_000):
        (answer,) = replace_unsupported(abilities, (DRAWN,))
        assert isinstance(answer, AssistantMessage)
        assert answer.parts == (SaidText(text="Here:"), SaidText(text="[dot.png]"))


def test_one_that_did_not_fit_is_never_sent() -> None:
    (question,) = replace_unsupported(
        SEES_ALL, (Question(text="", media=(replace(PLAN, base64=""),)),)
    )
    assert isinstance(question, Question)
    assert question.media == ()
    assert question.text.startswith("[Left out, because the request has no room for it: “plan.pdf”")


def test_one_that_is_too_large_goes_alone() -> None:
    small = Abilities(picture_bytes=50, document_bytes=1_000)
    (question,) = replace_unsupported(small, (Question(text="", media=(DOT, SEEN, PLAN)),))
    assert isinstance(question, Question)
    assert question.media == (SEEN, PLAN)


SENTENCES: dict[str, tuple[Abilities, tuple[HistoryItem, ...], tuple[str, ...]]] = {
    "all is seen": (SEES_ALL, (ASKED, RESULT, DRAWN), ()),
    "a picture of an answer is not seen": (
        SEES_NONE,
        (Question(text="Draw."), DRAWN),
        ("The model did not receive “dot.png”. It does not accept images.",),
    ),
    "nothing is seen": (
        SEES_NONE,
        (ASKED, ANSWER),
        (
            "The model did not receive “dot.png”. It does not accept images.",
            "The model did not receive “plan.pdf”. It does not accept PDF files. It received the "
            "text instead.",
        ),
    ),
    "too large": (
        Abilities(picture_bytes=50, document_bytes=1_000),
        (ASKED,),
        ("The model did not receive “dot.png”. It accepts images of up to 50 bytes.",),
    ),
    "a type that it does not know": (
        find_abilities("google", "gemini-4-argon"),
        (Question(text="Look", media=(replace(DOT, media_type="image/gif"), DOT)),),
        ("The model did not receive “dot.png”. It does not accept GIF images.",),
    ),
    "of a tool": (
        SEES_NONE,
        (Question(text="Look"), ANSWER, RESULT),
        ("The model did not receive a file (image/png). It does not accept images.",),
    ),
    "no room": (
        SEES_ALL,
        (Question(text="Look", media=(replace(DOT, base64=""),)), ANSWER, RESULT, ASKED),
        ("The model did not receive “dot.png”. Newer files used the available space.",),
    ),
    "no room, and told before": (
        SEES_ALL,
        (Question(text="Look", media=(replace(DOT, base64=""),)), Question(text="And now?")),
        (),
    ),
    "told before": (SEES_NONE, (ASKED, ANSWER, Question(text="And now?")), ()),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("abilities", "items", "told"), SENTENCES.values(), ids=SENTENCES)
def test_the_person_is_told_what_was_not_shown(
    owner: Member, abilities: Abilities, items: tuple[HistoryItem, ...], told: tuple[str, ...]
) -> None:
    assert describe_unsupported(rows.turn(owner), abilities, items) == told


@pytest.mark.django_db
def test_after_a_switch_it_is_said_of_all_that_came_before(owner: Member) -> None:
    items = (ASKED, ANSWER, Question(text="And now?"))
    turn = rows.turn(owner)
    earlier = rows.turn(owner, "done", text="x")
    Turn.objects.filter(pk=earlier.pk).update(conversation=turn.conversation, model="other:model")
    assert len(describe_unsupported(turn, SEES_NONE, items)) == 2
    Turn.objects.filter(pk=earlier.pk).update(model=turn.model)
    assert describe_unsupported(turn, SEES_NONE, items) == ()


@pytest.mark.django_db
def test_the_notice_stands_once_at_the_top_of_the_answer(owner: Member) -> None:
    turn = rows.turn(owner)
    assert note_unsupported(turn, ()) == []
    assert len(note_unsupported(turn, ("Not shown.",))) == 1
    assert note_unsupported(turn, ("Not shown.",)) == []
    notice = Part.objects.get(message=turn.answer, kind="notice")
    assert (notice.step, notice.text, notice.notice_kind) == (0, "Not shown.", "info")


@pytest.mark.django_db
@pytest.mark.parametrize(("said", "takes"), [(True, True), (False, False), (None, False)])
def test_a_row_of_an_admin_decides_for_its_model(
    owner: Member, said: bool | None, takes: bool
) -> None:
    provider = ModelProvider.objects.create(
        slug="shop", kind="openai-chat", label="Shop", key_place="none", base_url="http://x.test/v1"
    )
    ChatModel.objects.create(provider=provider, name="eyes", takes_documents=said)
    abilities = choose_model("shop:eyes", owner).abilities
    assert (abilities.document_bytes > 0) is takes


# --- a whole turn --------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
async def test_a_pdf_before_a_model_that_reads_none_goes_by_its_words(
    runtime: EngineRuntime, owner: Member
) -> None:
    data = pdf("Sold: 40")
    upload = Upload(name="sums.pdf", size=len(data), data=data)
    file = await in_database(keep_file, owner, upload)
    scripted.scenes.append(scripted.text("It says 40."))
    turn = await in_database(
        intake.receive, owner, None, text="Look", model=scripted.MODEL, attachments=[file.pk]
    )
    await wait_for_rest(runtime, turn)
    (question,) = scripted.requests[-1].history
    assert isinstance(question, Question)
    assert question.media == () and "Sold: 40" in question.text
    (note,) = await in_database(notes, owner, turn)
    assert (
        "The model did not receive “sums.pdf”. It does not accept PDF files. It received the"
        in note.text
    )


@pytest.mark.django_db(transaction=True)
async def test_files_that_a_provider_refuses_are_named_to_the_person(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append([FilesLeftOut(), *scripted.text("I cannot see it.")])
    await wait_for_rest(runtime, turn)
    (note,) = await in_database(notes, owner, turn)
    assert "The provider refused the files" in note.text


@pytest.mark.django_db(transaction=True)
async def test_a_model_that_cannot_use_tools_says_so_to_the_person(
    runtime: EngineRuntime, turn: Turn, owner: Member
) -> None:
    scripted.scenes.append([ToolsLeftOut(), *scripted.text("By heart, then.")])
    done = await wait_for_rest(runtime, turn)
    assert done.state == Turn.State.DONE
    (note,) = await in_database(notes, owner, turn)
    assert "This model cannot use tools, so it received none." in note.text
    assert "Choose another model" in note.text
