"""The challenge with which a server refuses a request that lacks credentials."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self
from urllib.request import parse_http_list

_PARAMETER = re.compile(r"(?:([!-~]+)[ \t]+)?([\w.~-]+)[ \t]*=[ \t]*(.*)", re.DOTALL)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The Bearer challenge of a `WWW-Authenticate` header, as far as it is valid."""

    resource_metadata: str = ""
    scope: str = ""
    is_step_up: bool = False
    is_well_formed: bool = field(default=False, compare=False)

    @classmethod
    def read(cls, header_values: Iterable[str]) -> Self:
        """Return the first Bearer challenge of the headers. Malformed parameters are ignored."""
        for value in header_values:
            for scheme, said in _parse_challenges(value[:8192]):
                if scheme == "bearer":
                    scope = said.get("scope", "")
                    return cls(
                        resource_metadata=said.get("resource_metadata", "")[:2000],
                        scope=scope[:1000] if _SCOPE.fullmatch(scope) else "",
                        is_step_up=said.get("error") == "insufficient_scope",
                        # RFC 6750: a scheme without a parameter is no challenge.
                        is_well_formed=bool(said),
                    )
        return cls()


def _parse_challenges(value: str) -> Iterable[tuple[str, dict[str, str]]]:
    """Yield the challenges of one header: commas separate both challenges and the parameters inside
    them."""
    scheme, said = "", dict[str, str]()
    for item in parse_http_list(value):
        found = _PARAMETER.fullmatch(item.strip())
        is_next = found is None or found[1] is not None
        if is_next and scheme:
            yield scheme, said
        if is_next:
            scheme, said = (found[1] if found else item.strip()).lower(), {}
        if found is not None:
            said.setdefault(found[2].lower(), _unquote(found[3].strip()))
    if scheme:
        yield scheme, said


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
