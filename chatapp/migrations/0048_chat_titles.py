from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0047_search_index")]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="title_is_draft",
            field=models.BooleanField(
                db_default=False, default=False, verbose_name="title is a draft"
            ),
        ),
    ]
