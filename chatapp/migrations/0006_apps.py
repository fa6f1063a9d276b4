import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Apps of calls, and turns that an app began."""

    dependencies = [
        ("chatapp", "0005_pauses"),
    ]

    operations = [
        migrations.CreateModel(
            name="AppContents",
            fields=[
                ("hash", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("html", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="App",
            fields=[
                (
                    "tool_call",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="app",
                        serialize=False,
                        to="chatapp.toolcall",
                    ),
                ),
                ("uri", models.TextField()),
                ("connects", models.JSONField(default=list)),
                ("loads", models.JSONField(default=list)),
                ("read_at", models.DateTimeField(auto_now_add=True)),
                (
                    "contents",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="apps",
                        to="chatapp.appcontents",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="turn",
            name="app_of",
            field=models.ForeignKey(
                help_text="The call whose app began this turn; the model is not asked.",
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="app_turns",
                to="chatapp.toolcall",
            ),
        ),
    ]
