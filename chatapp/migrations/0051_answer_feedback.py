"""Ratings of answers."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0050_message_drafts")]

    operations = [
        migrations.CreateModel(
            name="AnswerFeedback",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "is_good",
                    models.BooleanField(
                        choices=[(True, "Good answer"), (False, "Bad answer")],
                        verbose_name="rating",
                    ),
                ),
                (
                    "comment",
                    models.CharField(blank=True, max_length=500, verbose_name="comment"),
                ),
                ("model", models.CharField(max_length=200, verbose_name="model")),
                (
                    "saved_at",
                    models.DateTimeField(auto_now=True, db_index=True, verbose_name="saved at"),
                ),
                (
                    "message",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="feedback",
                        to="chatapp.message",
                        verbose_name="answer",
                    ),
                ),
            ],
            options={"verbose_name": "feedback entry", "verbose_name_plural": "feedback"},
        ),
    ]
