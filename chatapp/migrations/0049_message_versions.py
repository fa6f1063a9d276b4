"""Messages have versions, and one question can have several answers."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0048_chat_titles")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="branched_seq",
            field=models.PositiveBigIntegerField(
                db_default=0, default=0, verbose_name="branched seq"
            ),
        ),
        migrations.AddField(
            model_name="message",
            name="is_shown",
            field=models.BooleanField(db_default=True, default=True, verbose_name="is shown"),
        ),
        migrations.AlterField(
            model_name="turn",
            name="question",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="turns_asked",
                to="chatapp.message",
                verbose_name="question",
            ),
        ),
    ]
