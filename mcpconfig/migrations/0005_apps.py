from django.db import migrations, models

import mcpconfig.models.service


class Migration(migrations.Migration):
    """Services may bring apps, if an admin lets them, and reach the origins that he names."""

    dependencies = [
        ("mcpconfig", "0004_exchange_messages"),
    ]

    operations = [
        migrations.AddField(
            model_name="service",
            name="allows_apps",
            field=models.BooleanField(
                default=False,
                help_text="Its tools may bring a small app that is shown, sealed off, in the chat. "
                "Fetch the tools again after a change.",
                verbose_name="show its apps",
            ),
        ),
        migrations.AddField(
            model_name="service",
            name="app_origins",
            field=models.TextField(
                blank=True,
                default="",
                help_text="Where its apps may load files from and talk to, one a line, "
                "as https://host. Empty: nowhere.",
                validators=[mcpconfig.models.service.check_origins],
                verbose_name="origins for apps",
            ),
            preserve_default=False,
        ),
    ]
