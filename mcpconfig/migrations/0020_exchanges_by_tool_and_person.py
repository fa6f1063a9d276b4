"""The tool and the person of an exchange, to find it by them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mcpconfig', '0019_second_opinion'),
    ]

    operations = [
        migrations.AddField(
            model_name='exchange',
            name='person_id',
            field=models.BigIntegerField(null=True, verbose_name='member ID'),
        ),
        migrations.AddField(
            model_name='exchange',
            name='tool',
            field=models.CharField(blank=True, db_default='', default='', max_length=255, verbose_name='tool'),
        ),
        migrations.AddIndex(
            model_name='exchange',
            index=models.Index(fields=['person_id', '-id'], name='exchanges_of_a_person'),
        ),
        migrations.AddIndex(
            model_name='exchange',
            index=models.Index(fields=['tool', '-id'], name='exchanges_of_a_tool'),
        ),
        migrations.AddIndex(
            model_name='exchange',
            index=models.Index(fields=['created_at'], name='exchanges_by_date'),
        ),
    ]
