import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Tools that admins try by hand."""

    dependencies = [
        ("chatapp", "0006_apps"),
        ("mcpconfig", "0005_apps"),
    ]

    operations = [
        migrations.CreateModel(
            name="Trial",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool_id", models.CharField(max_length=128)),
                ("tool_name", models.CharField(max_length=255)),
                ("arguments", models.TextField()),
                ("risk", models.CharField(max_length=6)),
                ("reasons", models.JSONField(default=list)),
                ("why", models.CharField(help_text="The decision's reason.", max_length=500)),
                (
                    "was_confirmed",
                    models.BooleanField(default=False, verbose_name="confirmed by hand"),
                ),
                (
                    "binding",
                    models.CharField(
                        help_text="The hash of what was decided about.", max_length=64
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("sending", "running"),
                            ("succeeded", "done"),
                            ("failed", "failed"),
                            ("unknown", "outcome unknown"),
                        ],
                        default="sending",
                        max_length=17,
                    ),
                ),
                ("sent_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("result", models.JSONField(null=True)),
                ("error", models.JSONField(null=True)),
                (
                    "definition",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        to="mcpconfig.tooldefinition",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="trials",
                        to="mcpconfig.service",
                    ),
                ),
            ],
            options={
                "ordering": ["-sent_at"],
                "indexes": [
                    models.Index(fields=["service", "-sent_at"], name="trials_of_a_service")
                ],
            },
        ),
    ]
