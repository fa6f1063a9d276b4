"""The effort of a chat, and the sources that an answer cites."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0042_allowed_hosts")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="effort",
            field=models.CharField(blank=True, db_default="", default="", max_length=6),
        ),
        migrations.AddField(
            model_name="part",
            name="sources",
            field=models.JSONField(null=True),
        ),
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
                    ("sources", "Sources"),
                ],
                max_length=12,
            ),
        ),
    ]
