from django.db import migrations, models


class Migration(migrations.Migration):
    """Exchanges know their message, era and attempt, and what tool call they belong to."""

    dependencies = [
        ("mcpconfig", "0003_oauth"),
    ]

    operations = [
        migrations.AddField("exchange", "round_id", models.CharField(blank=True, max_length=64, default=""), preserve_default=False),
        migrations.AddField("exchange", "url", models.TextField(blank=True, default="", verbose_name="URL"), preserve_default=False),
        migrations.AddField(
            "exchange",
            "kind",
            models.CharField(
                blank=True,
                default="",
                help_text="Of the message sent: request, response, notification.",
                max_length=12,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "exchange",
            "rpc_id",
            models.CharField(blank=True, default="", max_length=100, verbose_name="message id"),
            preserve_default=False,
        ),
        migrations.AddField("exchange", "era", models.CharField(blank=True, max_length=20, default=""), preserve_default=False),
        migrations.AddField("exchange", "attempt", models.PositiveSmallIntegerField(default=1)),
        migrations.AddField(
            "exchange",
            "heard",
            models.JSONField(default=list, verbose_name="messages received"),
        ),
        migrations.AddField("exchange", "heard_count", models.PositiveIntegerField(default=0)),
        migrations.AddField("exchange", "started_at", models.DateTimeField(null=True)),
        migrations.AddIndex(
            "exchange",
            models.Index(fields=["operation_id"], name="mcpconfig_e_operati_13a1d7_idx"),
        ),
    ]
