"""The state of the last answer of a shared link, and when a person resolved a call."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0057_assistants")]

    operations = [
        migrations.AddField(
            model_name="sharedlink",
            name="last_state",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=8,
                verbose_name="state of the last answer",
            ),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="resolved_at",
            field=models.DateTimeField(null=True, verbose_name="resolved at"),
        ),
    ]
