"""Drafts of messages."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0049_message_versions")]

    operations = [
        migrations.CreateModel(
            name="MessageDraft",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("text", models.TextField(blank=True)),
                ("attachments", models.JSONField(default=list)),
                ("client_id", models.UUIDField(null=True)),
                ("replaced_id", models.UUIDField(null=True)),
                ("saved_at", models.DateTimeField(auto_now=True)),
                (
                    "conversation",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="message_draft",
                        to="chatapp.conversation",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="message_drafts",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("conversation", None)),
                        fields=("owner",),
                        name="one_draft_of_a_new_chat",
                    )
                ],
            },
        ),
    ]
