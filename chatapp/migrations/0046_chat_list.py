"""Chats are pinned, archived and deleted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0045_languages")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="pinned_at",
            field=models.DateTimeField(null=True, verbose_name="pinned at"),
        ),
        migrations.AddField(
            model_name="conversation",
            name="archived_at",
            field=models.DateTimeField(null=True, verbose_name="archived at"),
        ),
        migrations.AddField(
            model_name="conversation",
            name="deleted_at",
            field=models.DateTimeField(db_index=True, null=True, verbose_name="deleted at"),
        ),
    ]
