"""The language that a person chose, and the one that their browser asked for last."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0044_tasks")]

    operations = [
        migrations.AddField(
            model_name="member",
            name="language",
            field=models.CharField(
                blank=True, db_default="", default="", max_length=10, verbose_name="language"
            ),
        ),
        migrations.AddField(
            model_name="member",
            name="last_language",
            field=models.CharField(db_default="en", default="en", editable=False, max_length=10),
        ),
    ]
