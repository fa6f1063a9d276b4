"""What django-allauth asks about people who come from a sign-in provider."""

import logging
from typing import TYPE_CHECKING, Any, NoReturn, cast

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, _build_apps_from_settings
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import Resolver404, resolve, reverse
from django.utils.translation import gettext_lazy

from chatapp.audit import audit_log
from chatapp.models import Invitation, LogEntry, Member
from chatapp.people.refused import Refused
from chatapp.server.sign_in_providers import SignInProvider
from mcpconfig.values.lazy_module import LazyModule

from . import admission, entries, invitations

if TYPE_CHECKING:
    from . import bounded_session, ldap_sign_in, openid, saml
else:
    # Most installations have no sign-in provider and need none of their libraries.
    bounded_session = LazyModule("chatapp.accounts.bounded_session")
    ldap_sign_in = LazyModule("chatapp.accounts.ldap_sign_in")
    openid = LazyModule("chatapp.accounts.openid")
    saml = LazyModule("chatapp.accounts.saml")

logger = logging.getLogger(__name__)

CANCELLED = gettext_lazy("You cancelled the sign-in, or the provider refused it.")
FAILED = gettext_lazy("The sign-in did not work. Try again, or choose another way to sign in.")
UNREACHABLE = gettext_lazy("The provider could not be reached. Try again in a moment.")
NO_ACCOUNT = gettext_lazy(
    "No account here is connected with this sign-in. If you have an account, sign in to it and "
    "connect the provider in its settings. Otherwise, ask an admin for an account."
)
ONLY_WAY = gettext_lazy("This is your only way to sign in. Add another one first.")
OTHER_PERSON = gettext_lazy(
    "You signed in there as somebody else. Sign in again with your own account."
)
OTHER_ACCOUNT = gettext_lazy("This sign-in is already connected to another account here.")


def find_provider(provider_id: str) -> SignInProvider | None:
    """Return the configured provider with this id."""
    found = (each for each in settings.SIGN_IN_PROVIDERS if each.id == provider_id)
    return next(found, None)


def render_problem(request: HttpRequest, sentence: Any, status: int) -> HttpResponse:
    """Answer a sign-in that failed with one sentence and a way on."""
    return render(request, "sign_in/provider_problem.html", {"sentence": sentence}, status=status)


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        """Return what the environment configures. The table of django-allauth is not used."""
        found = _build_apps_from_settings(provider=provider, client_id=client_id)
        return [app for apps in found.values() for app in apps]

    def get_provider(
        self, request: HttpRequest, provider: str, client_id: str | None = None
    ) -> Any:
        app = self.get_app(request, provider=provider, client_id=client_id)
        if app.provider == "saml":
            return saml.SAML(request, app=app)
        if app.provider == "ldap":
            return ldap_sign_in.LDAP(request, app=app)
        kind = openid.GitHub if app.provider == "github" else openid.OpenID
        return kind(request, app=app)

    def get_requests_session(self) -> "bounded_session.BoundedSession":
        return bounded_session.BoundedSession()

    def is_email_verified(self, provider: Any, email: str) -> bool:
        configured = find_provider(provider.app.provider_id)
        return configured is not None and configured.emails_are_verified

    def authenticate_by_email(self, sociallogin: Any) -> None:
        """Never: `pre_social_login` links accounts, by our rules."""

    def pre_social_login(self, request: Any, sociallogin: Any) -> None:
        """Let in whom the setting lets in, link an account where it may be linked, and apply the
        groups of the claim."""
        provider = find_provider(sociallogin.account.provider)
        if provider is None:
            raise ImmediateHttpResponse(render_problem(request, FAILED, 404))
        # It is not used again, and a sign-in that waits for a code is stored in the session.
        sociallogin.token = None
        # Nothing is known of an address that the provider did not verify.
        sociallogin.email_addresses = [
            each for each in sociallogin.email_addresses if each.verified
        ]
        emails = [each.email for each in sociallogin.email_addresses]
        if refusal := admission.find_refusal(provider, request.provider_claims, emails):
            _refuse(request, provider, sociallogin, refusal)
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            if sociallogin.is_existing and sociallogin.user != request.user:
                _refuse(request, provider, sociallogin, OTHER_ACCOUNT)
            return
        confirms = sociallogin.state.get("confirms")
        if confirms and str(sociallogin.user.pk) != confirms:
            _refuse(request, provider, sociallogin, OTHER_PERSON)
        if not sociallogin.is_existing:
            member = admission.find_member_by_email(provider, emails)
            if member is not None:
                sociallogin.connect(request, member)
        if sociallogin.is_existing and sociallogin.user.is_active:
            _apply_groups(provider, request, sociallogin.user)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        provider = find_provider(sociallogin.account.provider)
        may_join = provider is not None and (
            provider.creates_accounts or _find_invitation(sociallogin) is not None
        )
        user = sociallogin.user
        if not may_join or admission.is_taken(user.email) or _has_taken_name(provider, user):
            _refuse(request, provider, sociallogin, NO_ACCOUNT)
        return True

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: Any) -> Any:
        """Keep an address of the provider only if the provider verified it."""
        user = super().populate_user(request, sociallogin, data)
        verified = [each.email for each in sociallogin.email_addresses if each.verified]
        user.email = verified[0] if verified else ""
        user.first_name, user.last_name = user.first_name[:150], user.last_name[:150]
        return user

    def save_user(self, request: Any, sociallogin: Any, form: Any = None) -> Member:
        provider = cast(SignInProvider, find_provider(sociallogin.account.provider))
        # An address may lead another provider to this account only if this one is trusted as well.
        # Otherwise somebody could wait in an account with another person's address for that person.
        sociallogin.user.is_email_self_given = not provider.links_by_email
        invitation = _find_invitation(sociallogin)
        try:
            with transaction.atomic():
                member: Member = super().save_user(request, sociallogin, form)
                entries.write(LogEntry.Kind.PROVIDER_ADDED, member, of=provider.name)
                if invitation is not None:
                    invitations.accept(invitation, member)
        except Refused as refused:
            raise ImmediateHttpResponse(
                render_problem(request, refused.sentence, refused.status)
            ) from refused
        _apply_groups(provider, request, member)
        return member

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return f"{reverse('settings')}#security"

    def send_notification_mail(self, *_args: Any, **_kwargs: Any) -> None:
        """The activity log has these events."""

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        extra_context: Any = None,
    ) -> NoReturn:
        """Answer with our page, whatever failed."""
        is_cancelled = error == AuthError.CANCELLED
        if exception is not None:
            logger.warning("Sign-in by %s failed: %s", provider.app.provider_id, exception)
        raise ImmediateHttpResponse(
            render_problem(request, CANCELLED if is_cancelled else FAILED, 403)
        )


def _find_invitation(sociallogin: Any) -> Invitation | None:
    """Return the open invitation from whose page this sign-in began: it leads back there."""
    try:
        match = resolve(sociallogin.state.get("next") or "")
    except Resolver404:
        return None
    is_page = match.url_name == "invitation"
    return Invitation.find_open(match.kwargs["token"]) if is_page else None


def _has_taken_name(provider: SignInProvider | None, user: Member) -> bool:
    """Whether another account has the name that this person types at each sign-in."""
    is_typed = provider is not None and provider.kind == "ldap"
    return is_typed and Member.objects.filter(username__iexact=user.username).exists()


def _apply_groups(provider: SignInProvider, request: Any, member: Member) -> None:
    if not provider.groups:
        return
    with transaction.atomic(), audit_log.acting_as(lambda: audit_log.Who(name=provider.name)):
        admission.apply_groups(provider, request.provider_claims, member)


def _refuse(
    request: HttpRequest, provider: SignInProvider | None, sociallogin: Any, sentence: Any
) -> NoReturn:
    member = sociallogin.user if sociallogin.is_existing else None
    entries.write(
        LogEntry.Kind.SIGN_IN_REFUSED,
        member,
        of=provider.name if provider else sociallogin.account.provider,
        uid=sociallogin.account.uid,
    )
    raise ImmediateHttpResponse(render_problem(request, sentence, 403))
