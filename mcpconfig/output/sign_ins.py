"""The output of sign-ins, which never includes a token."""

from mcpconfig.oauth.sign_in_admin import SignIn

from .services import Json


def build_sign_in_value(sign_in: SignIn) -> Json:
    """Return the JSON of a sign-in. `person` is null for a shared one."""
    return {
        "person": sign_in.person.get_username() if sign_in.person else None,
        "state": sign_in.state,
        "since": sign_in.since.isoformat() if sign_in.since else None,
        "expires_at": sign_in.expires_at.isoformat() if sign_in.expires_at else None,
        "renewed": sign_in.is_renewed,
        "scopes": list(sign_in.scopes),
        "wanted": list(sign_in.wanted),
    }


def format_sign_in(sign_in: SignIn) -> str:
    person = sign_in.person.get_username() if sign_in.person else "everybody"
    since = f"{sign_in.since:%Y-%m-%d %H:%M}" if sign_in.since else "–"
    return f"{person:<24} {sign_in.state:<14} {since:<17} {' '.join(sign_in.scopes) or '–'}"
