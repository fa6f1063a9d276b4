from django.db import migrations, models


class Migration(migrations.Migration):
    """How often a turn was dropped because the database refused something of it."""

    dependencies = [
        ("chatapp", "0007_trial"),
    ]

    operations = [
        migrations.AddField(
            model_name="turn",
            name="drops",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
    ]
