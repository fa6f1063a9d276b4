"""Takes the tables of django-allauth out of the admin: its forms would change secrets and accounts
without our checks and without an entry in the log."""

# These modules register the tables when they are imported.
import allauth.account.admin
import allauth.mfa.admin
import allauth.socialaccount.admin
import allauth.usersessions.admin  # noqa: F401
from django.contrib import admin

for model in list(admin.site._registry):
    if model.__module__.startswith("allauth."):
        admin.site.unregister(model)
