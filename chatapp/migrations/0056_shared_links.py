"""Read-only links to chats, and copies of shared chats."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0055_temporary_and_read")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="is_shared_copy",
            field=models.BooleanField(
                db_default=False, default=False, verbose_name="is a shared copy"
            ),
        ),
        migrations.CreateModel(
            name="SharedLink",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("audience", models.CharField(max_length=7)),
                ("tools", models.CharField(max_length=8)),
                ("includes_files", models.BooleanField()),
                ("title", models.CharField(blank=True, max_length=80)),
                ("last_part", models.PositiveBigIntegerField()),
                ("messages", models.PositiveIntegerField()),
                ("taken_at", models.DateTimeField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("opened", models.PositiveIntegerField(default=0)),
                ("opened_at", models.DateTimeField(null=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shared_links",
                        to="chatapp.conversation",
                    ),
                ),
                (
                    "last_message",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="chatapp.message",
                    ),
                ),
            ],
            options={"ordering": ["-created_at"]},
        ),
        migrations.CreateModel(
            name="SharedLinkReader",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("opened_at", models.DateTimeField(auto_now_add=True)),
                (
                    "link",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="readers",
                        to="chatapp.sharedlink",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="opened_links",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="sharedlinkreader",
            constraint=models.UniqueConstraint(
                fields=["link", "person"], name="one_reader_of_a_link"
            ),
        ),
    ]
