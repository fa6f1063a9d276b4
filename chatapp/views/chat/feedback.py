"""Ratings of answers, with a comment."""

import uuid

from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString

from chatapp.conversations import feedback
from chatapp.forms import FeedbackForm
from chatapp.live.page_facts import get_feedback
from chatapp.models import Turn
from chatapp.rendering import page_values
from chatapp.rendering.page_values import Feedback
from chatapp.rendering.pages import fragments
from chatapp.views.access import MemberRequest, for_members

from .conversations import build_message_address, build_sidebar_context


@for_members("POST")
def rate(request: MemberRequest, conversation_id: uuid.UUID, message_id: uuid.UUID) -> HttpResponse:
    """Store the rating of an answer and its comment, or delete both."""
    turn = feedback.find_rateable(request.user, conversation_id, message_id)
    before = get_feedback(turn.answer)
    form = FeedbackForm(request.POST)
    if not form.is_valid():
        return _render_refusal(request, turn, before, form)
    after = None
    if form.cleaned_data["rating"] == "none":
        feedback.take_back(turn)
    else:
        comment = form.cleaned_data["comment"]
        if before is not None and "comment" not in request.POST:
            comment = before.comment  # the page was loaded before the rating, so it has no field
        after = Feedback(is_good=form.cleaned_data["rating"] == "good", comment=comment)
        feedback.rate(turn, is_good=after.is_good, comment=after.comment)
    if not request.htmx:
        # The browser unfolds the form that has the comment.
        is_new = after is not None and before is None
        place = page_values.comment_id if is_new else page_values.status_id
        return redirect(build_message_address(turn.answer, place(message_id)))
    is_saved = after is not None and before is not None and after.is_good == before.is_good
    rating = fragments.render_feedback(
        turn, after, get_token(request), is_open=True, is_saved=is_saved
    )
    context = {"rating": SafeString(rating), "is_saved": is_saved}
    response = render(request, "chat/_feedback_saved.html", context)
    # The form makes the page longer. One that shows its end goes on to do so, as after a frame.
    response["HX-Trigger"] = '{"changes": []}'
    return response


def _render_refusal(
    request: MemberRequest, turn: Turn, before: Feedback | None, form: FeedbackForm
) -> HttpResponse:
    """Show the form again with what was typed: in its place, or on a page of its own."""
    wanted = form.cleaned_data.get("rating")
    typed = Feedback(
        is_good=wanted == "good" if wanted else before is None or before.is_good,
        comment=form.data.get("comment", ""),
        problem=str(next(iter(form.errors.values()))[0]),
    )
    rating = fragments.render_feedback(turn, before, get_token(request), typed=typed)
    context = {"rating": SafeString(rating)}
    if request.htmx:
        return render(request, "chat/_feedback_saved.html", context, status=422)
    context |= build_sidebar_context(request.user, str(turn.conversation_id))
    address = build_message_address(turn.answer, page_values.status_id(turn.answer_id))
    return render(request, "chat/feedback.html", context | {"back_to": address}, status=422)
