"""The host of an address is read strictly: what programs read in different ways has none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatapp.permissions.hosts import (
    MAX_PATTERNS,
    BadHost,
    is_allowed,
    read_address_host,
    read_mail_host,
    read_pattern,
    read_patterns,
)

ALLOWED = ("*.allowed.test", "192.0.2.1", "2001:db8::1", "@mail.test", "allowed.test")


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://allowed.test", "allowed.test"),
        ("https://allowed.test/a/b?c=d#e", "allowed.test"),
        ("http://ALLOWED.Test:8443/", "allowed.test"),
        ("https://allowed.test.", "allowed.test"),
        ("https://allowed.test?x=user@evil.test/", ""),
        ("https://allowed.test/@evil.test", "allowed.test"),
        ("https://allowed.test/@48.85,2.35,17z?fields=a,b", "allowed.test"),
        ("wss://a.b.allowed.test/socket", "a.b.allowed.test"),
        ("allowed.test/path", "allowed.test"),
        ("allowed.test:80", "allowed.test"),
        ("localhost", "localhost"),
        ("https://bücher.test/", "xn--bcher-kva.test"),
        ("https://XN--BCHER-kva.test/", "xn--bcher-kva.test"),
        ("https://192.0.2.1/x", "192.0.2.1"),
        ("http://[2001:DB8:0:0::1]:80/", "2001:db8::1"),
    ],
)
def test_a_plain_address_has_a_host(address: str, host: str) -> None:
    assert read_address_host(address) == host


@pytest.mark.parametrize(
    "address",
    [
        "",
        "https://",
        "https:///allowed.test",
        "https:allowed.test",
        "https:/allowed.test",
        "//allowed.test/",
        "https://user@allowed.test/",
        "https://allowed.test@evil.test/",
        "https://allowed.test:80@evil.test/",
        "https://allowed.test%40evil.test/",
        "https://allowed.test?@evil.test/",
        "https://allowed.test#@evil.test/",
        "https://evil.test\\@allowed.test/",
        "https://allowed.test\\.evil.test/",
        "https:\\\\allowed.test/",
        "https://allowed.test/\\evil.test",
        "https://allowed.test /",
        " https://allowed.test/",
        "https://allowed.test\n.evil.test/",
        "https://allowed.test\t/",
        "https://allowed.test\x00.evil.test/",
        "https://allow\u200bed.test/",
        "https://allow\u00aded.test/",
        "https://allowed\u3002test/",
        "https://evil.test\uff0f.allowed.test/",
        "https://evil.test\uff20allowed.test/",
        "https://\uff41llowed.test/",
        "https://evil.test\u2044.allowed.test/",
        "https://evil.test\u2100.allowed.test/",
        "https://allowed.test:99999/",
        "https://allowed.test:8o/",
        "https://allowed.test:80:81/",
        "https://allowed..test/",
        "https://allowed.test../",
        "https://.allowed.test/",
        "https://-allowed.test/",
        "https://allow_ed.test/",
        "https://*.allowed.test/",
        "https://allowed.test,evil.test/",
        "https://allowed.test/,evil.test/",
        "https://allowed.test/;evil.test",
        "https://allowed.test/a|//evil.test",
        "https://allowed.test/,https://evil.test/",
        "https://allowed.test;https://evil.test/",
        "https://" + "a" * 300 + ".allowed.test/",
        "https://192.0.2/",
        "https://192.0.513/",
        "https://3221225985/",
        "https://0xc0000201/",
        "https://0xc0.0.2.1/",
        "https://0300.0.2.1/",
        "https://192.0.2.01/",
        "https://192.0.2.1.1/",
        "https://192.0.2.256/",
        "http://[::ffff:c000:201%25eth0]/",
        "http://[2001:db8::1/",
        "http://[2001:db8::1]evil.test/",
        "http://2001:db8::1/",
        "javascript://allowed.test/%0aalert(1)",
        "file://allowed.test/etc/passwd",
        "gopher://allowed.test/",
        "mailto:ada@allowed.test",
        "/relative/path",
        "?q=1",
    ],
)
def test_an_unclear_address_has_no_allowed_host(address: str) -> None:
    assert not is_allowed(read_address_host(address), ALLOWED)


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.test/",
        "https://notallowed.test/",
        "https://allowed.test.evil.test/",
        "https://evil.test/allowed.test",
        "https://evil.test?allowed.test",
        "https://evil.test#.allowed.test",
        "https://\u0430llowed.test/",  # a Cyrillic letter
        "https://xn--llowed-2fg.test/",
        "http://[::ffff:192.0.2.1]/",
        "https://mail.test/",
    ],
)
def test_another_host_is_not_an_allowed_one(address: str) -> None:
    host = read_address_host(address)
    assert host
    assert not is_allowed(host, ALLOWED)


@pytest.mark.parametrize(
    ("recipient", "host"),
    [
        ("ada@mail.test", "@mail.test"),
        ("Ada.L+list@MAIL.test", "@mail.test"),
        ("ada@mail.test.", "@mail.test"),
        ("ada", ""),
        ("ada@", ""),
        ("@mail.test", ""),
        ("ada@localhost", ""),
        ("a@evil.test@mail.test", ""),
        ("ada%evil.test@mail.test", ""),
        ("evil.test!ada@mail.test", ""),
        ('"ada@mail.test"@evil.test', ""),
        ("Ada <ada@mail.test>", ""),
        ("ada@mail.test,eve@evil.test", ""),
        ("ada@mail.test\neve@evil.test", ""),
        ("ada@mail.test>", ""),
        ("ada@[192.0.2.1]", ""),
        ("ada@mail.test (eve@evil.test)", ""),
        ("a..b@mail.test", ""),
        ("evil.test/x@mail.test", ""),
        ("evil.test?d=x@mail.test", ""),
        ("evil.test/?d=x@mail.test", ""),
        ("evil.test#x@mail.test", ""),
        (".ada@mail.test", ""),
        ("ada@mail.test?bcc=eve@evil.test", ""),
        ("\u0430da@mail.test", ""),
    ],
)
def test_the_host_of_a_recipient_is_read_strictly(recipient: str, host: str) -> None:
    assert read_mail_host(recipient) == host


@pytest.mark.parametrize(
    ("host", "is_covered"),
    [
        ("allowed.test", True),
        ("a.allowed.test", True),
        ("a.b.allowed.test", True),
        ("192.0.2.1", True),
        ("2001:db8::1", True),
        ("@mail.test", True),
        ("mail.test", False),
        ("@allowed.test", False),
        ("@a.mail.test", False),
        ("xallowed.test", False),
        ("test", False),
        ("", False),
    ],
)
def test_the_list_covers_exactly_its_hosts(host: str, is_covered: bool) -> None:
    assert is_allowed(host, ALLOWED) is is_covered


def test_a_wildcard_does_not_cover_the_host_itself() -> None:
    assert not is_allowed("allowed.test", ["*.allowed.test"])
    assert is_allowed("@x.mail.test", ["@*.mail.test"])
    assert not is_allowed("@mail.test", ["@*.mail.test"])


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("  Example.COM. ", "example.com"),
        ("*.Bücher.test", "*.xn--bcher-kva.test"),
        ("@Example.com", "@example.com"),
        ("@*.example.com", "@*.example.com"),
        ("localhost", "localhost"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8:0::1", "2001:db8::1"),
    ],
)
def test_a_line_of_an_admin_is_brought_into_its_normal_form(line: str, pattern: str) -> None:
    assert read_pattern(line) == pattern


@pytest.mark.parametrize(
    "line",
    [
        *("*", "*.", "*.com", "@", "@*", "@*.com", "**.example.com", "a.*.example.com"),
        *("*example.com", "example.*", "https://example.com", "example.com/path"),
        *("example.com:443", "user@example.com", "*.192.0.2.1", "@192.0.2.1", "127.1"),
        *("2130706433", "exa mple.com", "exam_ple.com", "\uff45xample.com", "[::1", "@[::1]"),
        *("*.*.example.com", "-example.com", "a" * 64 + ".com"),
    ],
)
def test_a_line_that_is_no_host_is_refused(line: str) -> None:
    with pytest.raises(BadHost):
        read_pattern(line)


def test_a_list_is_sorted_without_duplicates_and_bounded() -> None:
    assert read_patterns("b.test\n\n A.test \nb.test.\n") == ("a.test", "b.test")
    with pytest.raises(BadHost):
        read_patterns("\n".join(f"h{number}.test" for number in range(MAX_PATTERNS + 1)))


@given(st.text(max_size=300), st.sampled_from(["", "https://", "https://allowed.test", "[", "@"]))
def test_any_text_is_read_without_an_error(text: str, before: str) -> None:
    for host in (read_address_host(before + text), read_mail_host(before + text)):
        assert host.isascii()
        assert not set(host.removeprefix("@")) & set("@/\\?#%[] ")
