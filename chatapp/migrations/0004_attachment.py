import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0003_call_binding"),
        ("mcpconfig", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="part",
            name="kind",
            field=models.CharField(
                choices=[
                    ("text", "Text"),
                    ("reasoning", "Reasoning"),
                    ("tool_call", "Tool Call"),
                    ("notice", "Notice"),
                    ("file", "File"),
                ],
                max_length=12,
            ),
        ),
        migrations.CreateModel(
            name="Attachment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("service_name", models.CharField(max_length=100)),
                ("uri", models.TextField()),
                ("name", models.CharField(max_length=255)),
                ("mime_type", models.CharField(blank=True, max_length=255)),
                ("size", models.PositiveIntegerField(help_text="In bytes.")),
                ("hash", models.CharField(max_length=64)),
                ("was_cut", models.BooleanField(default=False)),
                ("contents", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attachments",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "part",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attachment",
                        to="chatapp.part",
                    ),
                ),
                (
                    "service",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="attachments",
                        to="mcpconfig.service",
                    ),
                ),
            ],
            options={
                "ordering": ["created_at"],
                "indexes": [
                    models.Index(
                        fields=["owner", "created_at"], name="chatapp_att_owner_i_169451_idx"
                    )
                ],
            },
        ),
    ]
