"""Sign-ins as the `mcp` command prints them; never a token."""

from .console import Json
from .oauth.sign_ins import SignIn


def sign_in_value(sign_in: SignIn) -> Json:
    """`person` is null for the sign-in that serves everybody."""
    return {
        "person": sign_in.person.get_username() if sign_in.person else None,
        "state": sign_in.state,
        "since": sign_in.since.isoformat() if sign_in.since else None,
        "expires_at": sign_in.expires_at.isoformat() if sign_in.expires_at else None,
        "renewed": sign_in.is_renewed,
        "scopes": list(sign_in.scopes),
        "wanted": list(sign_in.wanted),
    }


def sign_in_line(sign_in: SignIn) -> str:
    person = sign_in.person.get_username() if sign_in.person else "everybody"
    since = f"{sign_in.since:%Y-%m-%d %H:%M}" if sign_in.since else "–"
    return f"{person:<24} {sign_in.state:<14} {since:<17} {' '.join(sign_in.scopes) or '–'}"
