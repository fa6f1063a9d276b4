"""Drafts of model providers, hidden items of the overview, and usage found by model."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chatapp', '0069_opinions_and_checks'),
    ]

    operations = [
        migrations.AlterField(
            model_name='usageofday',
            name='model',
            field=models.CharField(db_index=True, max_length=200, verbose_name='model'),
        ),
        migrations.CreateModel(
            name='HiddenNeed',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('facts', models.CharField(max_length=64)),
                ('rank', models.SmallIntegerField()),
                ('until', models.DateTimeField(null=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('person', 'name'), name='one_hidden_need_of_a_name')],
            },
        ),
        migrations.CreateModel(
            name='ProviderDraft',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('typed', models.JSONField(default=dict)),
                ('secrets', models.BinaryField(default=b'')),
                ('secrets_for', models.CharField(blank=True, max_length=2100)),
                ('report', models.JSONField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='chatapp_pro_created_d6a7e4_idx')],
            },
        ),
    ]
