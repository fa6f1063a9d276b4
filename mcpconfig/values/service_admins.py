"""Who manages services. Another admin uses them as a member does. Reads no row."""

from django.contrib.auth.models import AbstractUser

RIGHT = "services"


def manages_services(member: AbstractUser) -> bool:
    return member.is_staff and (member.is_superuser or RIGHT in getattr(member, "rights", ()))
