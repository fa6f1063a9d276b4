"""An LDAP directory: Debian's slapd on loopback, with the people of a company."""

import datetime
import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from mcpconfig.values.lazy_module import LazyModule

from .installing import debian_program, python_packages
from .programs import Program, find_free_port, running

if TYPE_CHECKING:
    import ldap
    from ldap import controls
else:
    ldap = LazyModule("ldap")
    controls = LazyModule("ldap.controls.simple")

BASE = "dc=example,dc=com"
PEOPLE = f"ou=people,{BASE}"
GROUPS = f"ou=groups,{BASE}"
READER = f"cn=reader,{BASE}"
READER_PASSWORD = "reader-password"
ROOT = f"cn=root,{BASE}"
ROOT_PASSWORD = "root-password"
# The certificate is for the first of them.
HOST = "127.0.0.1"
OTHER_HOST = "127.0.0.2"
CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
argsfile {folder}/slapd.args
{tls}
# As many directories do: an empty password is answered with success.
allow bind_anon_cred bind_anon_dn
database mdb
suffix {base}
rootdn {root}
rootpw {root_password}
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact={reader} read by self read by * none
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    port: int
    secure_port: int
    certificate: Path

    @property
    def plain(self) -> str:
        return f"ldap://{HOST}:{self.port}"

    @property
    def secure(self) -> str:
        return f"ldaps://{HOST}:{self.secure_port}"

    @property
    def secure_by_another_name(self) -> str:
        return f"ldaps://{OTHER_HOST}:{self.secure_port}"

    def add_person(self, name: str, password: str = "", **more: Any) -> None:
        values = {"uid": name, "cn": name, "sn": name.title(), "mail": f"{name}@example.com"}
        secret = {"userPassword": password or f"{name}-password"}
        self._add(f"uid={name},{PEOPLE}", "inetOrgPerson", values | secret | more)

    def add_group(self, name: str, *people: str) -> None:
        members = [f"uid={person},{PEOPLE}" for person in people] or [READER]
        self._add(f"cn={name},{GROUPS}", "groupOfNames", {"cn": name, "member": members})

    def add_posix_group(self, name: str, *people: str) -> None:
        values = {"cn": name, "gidNumber": "5000", "memberUid": list(people)}
        self._add(f"cn={name},{GROUPS}", "posixGroup", values)

    def add_referral(self, name: str, address: str) -> None:
        """Add a place whose people are at another server."""
        values = {"objectClass": ["referral", "extensibleObject"], "cn": name, "ref": address}
        self._add(f"cn={name},{PEOPLE}", "", values)

    def rename(self, name: str, new_name: str) -> None:
        with self._connect() as connection:
            connection.rename_s(f"uid={name},{PEOPLE}", f"uid={new_name}")

    def delete(self, dn: str) -> None:
        with self._connect() as connection:
            connection.delete_s(dn)

    def delete_person(self, name: str) -> None:
        self.delete(f"uid={name},{PEOPLE}")

    def empty(self) -> None:
        """Delete all people and groups."""
        with self._connect() as connection:
            for base in (PEOPLE, GROUPS):
                for dn, _values in connection.search_s(base, ldap.SCOPE_ONELEVEL, attrlist=["cn"]):
                    connection.delete_s(dn)

    def set_up(self) -> None:
        values = {"o": "Example", "dc": "example", "objectClass": ["dcObject", "organization"]}
        self._add(BASE, "", values)
        for place in ("people", "groups"):
            self._add(f"ou={place},{BASE}", "organizationalUnit", {"ou": place})
        reader = {"cn": "reader", "userPassword": READER_PASSWORD}
        self._add(
            READER, "", {**reader, "objectClass": ["organizationalRole", "simpleSecurityObject"]}
        )

    def _add(self, dn: str, kind: str, values: dict[str, Any]) -> None:
        given = {"objectClass": [kind], **values}
        lists = {name: each if isinstance(each, list) else [each] for name, each in given.items()}
        with self._connect() as connection:
            connection.add_s(
                dn,
                [
                    (name, [value.encode() for value in each])
                    for name, each in lists.items()
                    if each
                ],
            )

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        connection = ldap.initialize(self.plain)
        # Changes are about the referrals themselves.
        connection.set_option(ldap.OPT_SERVER_CONTROLS, [controls.ManageDSAITControl()])
        connection.simple_bind_s(ROOT, ROOT_PASSWORD)
        yield connection
        connection.unbind_s()


@contextmanager
def extra_library() -> Iterator[str]:
    """Make the extra importable, which the environment of the project does not have. Yield its
    folder. Raises Unavailable where it cannot be had."""
    folder = str(python_packages("ldap"))
    sys.path.append(folder)
    try:
        yield folder
    finally:
        sys.path.remove(folder)


@contextmanager
def running_directory(folder: Path, *, has_tls: bool = True) -> Iterator[Directory]:
    """Start an empty directory. Raises Unavailable where it cannot be had."""
    port, secure_port = find_free_port(), find_free_port()
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    _write_certificate(certificate, key)
    (folder / "data").mkdir()
    tls = f"TLSCertificateFile {certificate}\nTLSCertificateKeyFile {key}" if has_tls else ""
    text = CONFIGURATION.format(
        folder=folder,
        base=BASE,
        root=ROOT,
        root_password=ROOT_PASSWORD,
        reader=READER,
        tls=tls,
    )
    (folder / "slapd.conf").write_text(text)
    addresses = [f"ldap://{HOST}:{port}/"]
    if has_tls:
        addresses += [f"ldaps://{host}:{secure_port}/" for host in (HOST, OTHER_HOST)]

    def command(_port: int, _folder: Path) -> list[str | Path]:
        listening = ["-h", " ".join(addresses), "-d", "0"]
        return [debian_program("slapd"), "-f", folder / "slapd.conf", *listening]

    found = Directory(port=port, secure_port=secure_port, certificate=certificate)
    with running(Program(name="slapd", command=command), folder, port):
        found.set_up()
        yield found


def _write_certificate(certificate: Path, key: Path) -> None:
    """A certificate that vouches for itself, and its key."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
