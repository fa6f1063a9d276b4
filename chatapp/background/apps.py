"""The library that keeps tasks in the database, with the name that the admin shows."""

from django.utils.translation import gettext_lazy
from django_tasks_db.apps import TasksAppConfig


class TasksConfig(TasksAppConfig):
    verbose_name = gettext_lazy("Background tasks")  # type: ignore[assignment]  # the library says str
