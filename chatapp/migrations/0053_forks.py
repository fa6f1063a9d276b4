"""Forks of chats, and their copies of tool calls."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0052_message_queue")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="forked_from",
            field=models.UUIDField(null=True, verbose_name="forked from"),
        ),
        migrations.AddField(
            model_name="conversation",
            name="tainted_by",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                max_length=100,
                verbose_name="untrusted content from",
            ),
        ),
        migrations.AddField(
            model_name="part",
            name="copied_call",
            field=models.JSONField(null=True),
        ),
    ]
