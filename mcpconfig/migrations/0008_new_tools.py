from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mcpconfig", "0007_company_sign_in"),
    ]

    operations = [
        migrations.AddField(
            model_name="service",
            name="new_tools",
            field=models.CharField(
                choices=[("wait", "wait for an admin"), ("pass", "count as confirmed")],
                default="wait",
                help_text="Until an admin has confirmed a tool as it is now, it asks each time. Where they count as confirmed, they do so from the next time that the tools are fetched.",
                max_length=4,
                verbose_name="new and changed tools",
            ),
        ),
    ]
