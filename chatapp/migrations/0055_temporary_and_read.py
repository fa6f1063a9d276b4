"""What a person has read of their chats, and chats that are temporary."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0054_chat_instructions")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="read_at",
            field=models.DateTimeField(null=True, verbose_name="read at"),
        ),
        migrations.AddField(
            model_name="conversation",
            name="is_temporary",
            field=models.BooleanField(
                db_default=False, default=False, verbose_name="is temporary"
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=models.Q(("is_temporary", True)),
                fields=["active_at"],
                name="temporary_chats",
            ),
        ),
    ]
