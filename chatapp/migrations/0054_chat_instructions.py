"""Instructions for one chat."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0053_forks")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="instructions",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                max_length=8000,
                verbose_name="instructions",
            ),
        ),
    ]
