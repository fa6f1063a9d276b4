"""Examines mail: whether a server is set up, takes us in, and takes what is sent to people. Nothing
is sent."""

from smtplib import SMTPAuthenticationError

from django.conf import settings as values
from django.core.mail import get_connection

from chatapp.models import MailPreference
from chatapp.turns.reminders import MOST_REFUSALS

from .findings import Finding, doubtful, good, wrong

SUBJECT = "mail"


def server() -> list[Finding]:
    """Connects, with encryption and a sign-in where those are set, and says goodbye."""
    if not values.SENDS_MAIL:
        return [good(SUBJECT, "None is sent: EMAIL_URL is not set.")]
    place = f"{values.EMAIL_HOST}:{values.EMAIL_PORT}"
    connection = get_connection(fail_silently=False)
    try:
        connection.open()
    except SMTPAuthenticationError:
        hint = "Check the name and the password in EMAIL_URL."
        return [wrong(SUBJECT, f"{place} does not let us sign in.", hint)]
    except OSError as error:  # smtplib's errors are among them
        hint = "Check EMAIL_URL, and that the server can be reached from here."
        failed = f"{place} cannot be used ({type(error).__name__}): nobody is told by mail."
        return [wrong(SUBJECT, failed, hint)]
    connection.close()
    return [good(SUBJECT, f"{place} takes us in. Nothing was sent.")]


def addresses() -> list[Finding]:
    """People whose mails stopped because the server refused them so often."""
    given_up = MailPreference.objects.filter(is_on=False, refusals__gte=MOST_REFUSALS)
    names = list(given_up.order_by("pk").values_list("person__username", flat=True)[:10])
    if not names or not values.SENDS_MAIL:
        return []
    hint = "Correct them in the admin; then these people switch their mails on again."
    refused = f"The server refuses the addresses of: {', '.join(names)}."
    return [doubtful(SUBJECT, refused, hint)]
