"""Checks of mail: the connection to the server, and addresses that it refused.

No mail is sent.
"""

from smtplib import SMTPAuthenticationError

from django.conf import settings as values
from django.core.mail import get_connection
from django.utils.translation import gettext as _

from chatapp.approvals.reminders import MAX_REFUSALS
from chatapp.models import MailPreference

from .findings import Finding, report_doubtful, report_good, report_wrong

SUBJECT = "mail"


def check_server() -> list[Finding]:
    """Check that a connection can be opened, with encryption and sign-in if these are set."""
    if not values.SENDS_MAIL:
        return [report_good(SUBJECT, _("No mail is sent, because EMAIL_URL is not set."))]
    server = f"{values.EMAIL_HOST}:{values.EMAIL_PORT}"
    connection = get_connection(fail_silently=False)
    try:
        connection.open()
    except SMTPAuthenticationError:
        hint = _("Check the name and the password in EMAIL_URL.")
        return [
            report_wrong(SUBJECT, _("%(server)s refuses the sign-in.") % {"server": server}, hint)
        ]
    except OSError as error:  # includes the errors of smtplib
        hint = _("Check EMAIL_URL, and that the server is reachable.")
        problem = _("%(server)s can’t be used (%(error)s), so no mail is sent.") % {
            "server": server,
            "error": type(error).__name__,
        }
        return [report_wrong(SUBJECT, problem, hint)]
    connection.close()
    return [
        report_good(
            SUBJECT, _("%(server)s accepts the sign-in. Nothing was sent.") % {"server": server}
        )
    ]


def check_addresses() -> list[Finding]:
    """Report people whose mails were switched off because the server refused their address."""
    switched_off = MailPreference.objects.filter(is_on=False, refusals__gte=MAX_REFUSALS)
    names = list(switched_off.order_by("pk").values_list("person__username", flat=True)[:10])
    if not names or not values.SENDS_MAIL:
        return []
    hint = _("Correct them in the admin. Then these people can turn their mails on again.")
    problem = _("The server refuses the addresses of: %(names)s.") % {"names": ", ".join(names)}
    return [report_doubtful(SUBJECT, problem, hint)]
