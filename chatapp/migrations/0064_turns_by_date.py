"""An index for the lists and charts of the admin, which order turns by date."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0063_accounts")]

    operations = [
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["created_at"], name="turns_by_date"),
        ),
    ]
