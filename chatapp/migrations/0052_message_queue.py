"""Messages that are sent after the answer in progress."""

import uuid

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0051_answer_feedback")]

    operations = [
        migrations.CreateModel(
            name="QueuedMessage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("client_id", models.UUIDField(default=uuid.uuid4, unique=True)),
                ("text", models.TextField()),
                ("attachments", models.JSONField(default=list)),
                ("model", models.CharField(max_length=200)),
                ("effort", models.CharField(blank=True, max_length=10)),
                ("problem", models.TextField(blank=True)),
                ("is_urgent", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="queued_messages",
                        to="chatapp.conversation",
                    ),
                ),
            ],
            options={"ordering": ["-is_urgent", "pk"]},
        ),
    ]
