from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0033_questions_about_one_use"),
        ("mcpconfig", "0015_look"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="toolcall",
            index=models.Index(
                condition=models.Q(
                    ("state", "awaiting_approval"),
                    ("state", "awaiting_input"),
                    ("state", "awaiting_sign_in"),
                    ("state", "awaiting_task"),
                    ("state", "unknown"),
                    _connector="OR",
                ),
                fields=["state"],
                name="calls_that_wait",
            ),
        ),
    ]
