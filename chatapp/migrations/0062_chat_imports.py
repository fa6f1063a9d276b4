"""Imports of chats from files of other programs."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chatapp', '0061_stored_objects'),
    ]

    operations = [
        migrations.AddField(
            model_name='conversation',
            name='imported_from',
            field=models.CharField(blank=True, db_default='', default='', max_length=20, verbose_name='imported from'),
        ),
        migrations.CreateModel(
            name='ChatImport',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('file_name', models.CharField(max_length=255)),
                ('size', models.PositiveBigIntegerField()),
                ('source', models.CharField(blank=True, max_length=20)),
                ('state', models.CharField(choices=[('reading', 'being read'), ('ready', 'ready to import'), ('importing', 'being imported'), ('done', 'imported'), ('refused', 'could not be read'), ('undone', 'undone')], default='reading', max_length=9)),
                ('problem', models.TextField(blank=True)),
                ('progress', models.PositiveBigIntegerField(default=0)),
                ('total', models.PositiveBigIntegerField(default=0)),
                ('begun_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chat_imports', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-begun_at'],
            },
        ),
        migrations.CreateModel(
            name='ImportPiece',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('data', models.BinaryField()),
                ('chat_import', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pieces', to='chatapp.chatimport')),
            ],
        ),
        migrations.CreateModel(
            name='ListedChat',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('origin', models.CharField(db_index=True, max_length=120)),
                ('source', models.CharField(max_length=20)),
                ('title', models.CharField(blank=True, max_length=80)),
                ('begun_at', models.DateTimeField(null=True)),
                ('active_at', models.DateTimeField(null=True)),
                ('messages', models.PositiveIntegerField(default=0)),
                ('losses', models.JSONField(default=dict)),
                ('problem', models.CharField(blank=True, max_length=200)),
                ('is_selected', models.BooleanField(default=False)),
                ('chat_import', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chats', to='chatapp.chatimport')),
                ('conversation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chatapp.conversation')),
                ('twin', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chatapp.conversation')),
            ],
            options={
                'ordering': ['number'],
            },
        ),
        migrations.AddConstraint(
            model_name='chatimport',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ('reading', 'ready', 'importing'))), fields=('person',), name='one_open_import_of_a_person'),
        ),
        migrations.AddConstraint(
            model_name='importpiece',
            constraint=models.UniqueConstraint(fields=('chat_import', 'number'), name='one_piece_at_a_place'),
        ),
        migrations.AddConstraint(
            model_name='listedchat',
            constraint=models.UniqueConstraint(fields=('chat_import', 'number'), name='one_chat_at_a_place'),
        ),
    ]
