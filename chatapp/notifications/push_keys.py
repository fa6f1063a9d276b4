"""The keys by which push services know this server (VAPID, RFC 8292). The first is made when it is
needed; private keys are sealed."""

from typing import TYPE_CHECKING

from django.db import transaction

from chatapp.models import PushDevice, PushKey
from mcpconfig.values import base64url
from mcpconfig.values.lazy_module import LazyModule

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
else:
    # A tenth of the memory of a server that pushes nothing.
    serialization = LazyModule("cryptography.hazmat.primitives.serialization")
    ec = LazyModule("cryptography.hazmat.primitives.asymmetric.ec")

PRIVATE_BYTES = 32
POINT_BYTES = 65


def get_newest() -> PushKey:
    """Return the key for new devices; make it if there is none."""
    return PushKey.objects.last() or make_key()


def make_key() -> PushKey:
    """Make a key. New devices are bound to it; the others keep theirs."""
    private = ec.generate_private_key(ec.SECP256R1())
    number = private.private_numbers().private_value
    public = private.public_key().public_bytes(
        serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
    )
    with transaction.atomic():
        key = PushKey.objects.create(public_key=base64url.encode(public))
        key.set_private_key(base64url.encode(number.to_bytes(PRIVATE_BYTES, "big")))
    return key


def rotate_key(*, drops_devices: bool) -> int:
    """Make a new key and delete those that no device uses. With `drops_devices`, delete all earlier
    ones with their devices. Return how many devices were removed."""
    with transaction.atomic():
        newest = make_key()
        earlier = PushKey.objects.exclude(pk=newest.pk)
        if not drops_devices:
            earlier.filter(devices=None).delete()
            return 0
        count = PushDevice.objects.count()
        earlier.delete()
    return count


def check_point(point: bytes) -> None:
    """Check the public key of a browser, so that messages can be encrypted for it. Raises
    ValueError."""
    if len(point) != POINT_BYTES:
        raise ValueError("not an uncompressed point")
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
