"""A SAML provider that signs real responses, and misbehaves as a test says."""

import base64
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from defusedxml.ElementTree import fromstring
from onelogin.saml2.utils import OneLogin_Saml2_Utils

ISSUER = "urn:acme:identity"
SSO_URL = "https://id.example.com/sso"
PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
NAMES = (
    'xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" '
    'xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"'
)
BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success"


def make_pair() -> tuple[str, str]:
    """Return a new private key and its certificate, as PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "id.example.com")])
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=36_500))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    return private.decode(), public.decode()


KEY, CERTIFICATE = make_pair()
OTHER_KEY, OTHER_CERTIFICATE = make_pair()


@dataclass
class SAMLProvider:
    """`attributes` describe the person. The other fields are what a wrong provider changes."""

    name_id: str = "person-1"
    name_id_format: str = PERSISTENT
    attributes: dict[str, list[str]] = field(
        default_factory=lambda: {
            "email": ["ada@example.com"],
            "givenName": ["Ada"],
            "sn": ["Lovelace"],
            "groups": ["chat", "staff"],
        }
    )
    issuer: str = ISSUER
    audience: str = ""
    recipient: str = ""
    status: str = SUCCESS
    valid_seconds: int = 300
    issued_at: datetime | None = None
    signed_in_at: datetime | None = None
    key: str = KEY
    certificate: str = CERTIFICATE
    is_signed: bool = True
    # Whether the assertion is signed and not the response around it, as most providers do.
    signs_assertion: bool = False
    # What the assertion leaves out.
    names_request: bool = True
    names_recipient: bool = True
    names_audience: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)

    def answer(self, address: str) -> str:
        """Sign the person in at once. Return what the browser posts back."""
        query = parse_qs(urlsplit(address).query)
        packed = base64.b64decode(query["SAMLRequest"][0])
        request = fromstring(zlib.decompress(packed, -15))
        self.asked.append(dict(request.attrib))
        return self.write(request.attrib["ID"], request.attrib["AssertionConsumerServiceURL"])

    def write(self, request_id: str, recipient: str) -> str:
        text = self._write_xml(request_id, self.recipient or recipient)
        if self.is_signed and self.signs_assertion:
            start, end = text.index("<saml:Assertion"), text.index("</samlp:Response>")
            text = text[:start] + self._sign(text[start:end]) + text[end:]
        elif self.is_signed:
            text = self._sign(text)
        return base64.b64encode(text.encode()).decode()

    def _sign(self, text: str) -> str:
        signed: Any = OneLogin_Saml2_Utils.add_sign(text, self.key, self.certificate)
        return signed.decode() if isinstance(signed, bytes) else str(signed)

    def _write_xml(self, request_id: str, recipient: str) -> str:
        now = self.issued_at or datetime.now(UTC)
        begin, end = (
            stamp(now - timedelta(seconds=30)),
            stamp(now + timedelta(seconds=self.valid_seconds)),
        )
        audience = self.audience or recipient + "metadata/"
        answers = f'InResponseTo="{request_id}"' if request_id else ""
        attributes = "".join(
            write_attribute(name, values) for name, values in self.attributes.items()
        )
        confirmed = f'NotOnOrAfter="{end}"'
        if self.names_recipient:
            confirmed += f' Recipient="{recipient}"'
        if self.names_request:
            confirmed += f" {answers}"
        restriction = (
            f"<saml:AudienceRestriction><saml:Audience>{audience}</saml:Audience>"
            f"</saml:AudienceRestriction>"
            if self.names_audience
            else ""
        )
        return (
            f'<samlp:Response {NAMES} ID="_response" Version="2.0" IssueInstant="{stamp(now)}" '
            f'Destination="{recipient}" {answers}><saml:Issuer>{self.issuer}</saml:Issuer>'
            f'<samlp:Status><samlp:StatusCode Value="{self.status}"/></samlp:Status>'
            f'<saml:Assertion {NAMES} ID="_assertion" Version="2.0" IssueInstant="{stamp(now)}">'
            f"<saml:Issuer>{self.issuer}</saml:Issuer>"
            f'<saml:Subject><saml:NameID Format="{self.name_id_format}">{escape(self.name_id)}'
            f'</saml:NameID><saml:SubjectConfirmation Method="{BEARER}">'
            f"<saml:SubjectConfirmationData {confirmed}/>"
            f"</saml:SubjectConfirmation></saml:Subject>"
            f'<saml:Conditions NotBefore="{begin}" NotOnOrAfter="{end}">{restriction}'
            f"</saml:Conditions>"
            f'<saml:AuthnStatement AuthnInstant="{stamp(self.signed_in_at or now)}" '
            f'SessionIndex="_session"><saml:AuthnContext><saml:AuthnContextClassRef>'
            f"urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef>"
            f"</saml:AuthnContext></saml:AuthnStatement>"
            f"<saml:AttributeStatement>{attributes}</saml:AttributeStatement></saml:Assertion>"
            f"</samlp:Response>"
        )


def write_attribute(name: str, values: list[str]) -> str:
    parts = (f"<saml:AttributeValue>{escape(value)}</saml:AttributeValue>" for value in values)
    return f'<saml:Attribute Name="{escape(name)}">{"".join(parts)}</saml:Attribute>'


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
