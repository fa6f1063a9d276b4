import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Files of people beside the resources of services."""

    dependencies = [
        ("chatapp", "0009_providers"),
    ]

    operations = [
        migrations.CreateModel(
            name="File",
            fields=[
                (
                    "attachment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="file",
                        serialize=False,
                        to="chatapp.attachment",
                    ),
                ),
                ("data", models.BinaryField()),
                ("words", models.TextField(blank=True)),
                ("characters", models.PositiveIntegerField(default=0)),
                ("pages", models.PositiveIntegerField(default=0)),
            ],
        ),
    ]
