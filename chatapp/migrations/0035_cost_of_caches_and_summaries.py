from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chatapp", "0034_calls_that_wait"),
    ]

    operations = [
        migrations.AddField(
            model_name="chatmodel",
            name="cache_write_price",
            field=models.DecimalField(
                blank=True,
                decimal_places=6,
                help_text="A million tokens read and written into the provider's cache. Empty: a "
                "quarter more than the others for Claude, else as the others.",
                max_digits=12,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="step",
            name="summary_input_tokens",
            field=models.PositiveIntegerField(
                default=0, help_text="Read to summarise older turns before this call."
            ),
        ),
        migrations.AddField(
            model_name="step",
            name="summary_output_tokens",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
