"""Projects, their members and files, and the full-text index of the text of their files."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models

from chatapp.models.projects import passage_index


def install(apps, schema_editor):
    passage_index.install(schema_editor.connection)


def remove(apps, schema_editor):
    passage_index.remove(schema_editor.connection)


class Migration(migrations.Migration):

    dependencies = [
        ('chatapp', '0059_preferred_model'),
        ('mcpconfig', '0017_free_destinations'),
    ]

    operations = [
        migrations.CreateModel(
            name='ProjectFile',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=255)),
                ('media_type', models.CharField(blank=True, max_length=200)),
                ('size', models.PositiveBigIntegerField()),
                ('state', models.CharField(choices=[('reading', 'Reading…'), ('ready', 'Searchable'), ('failed', 'Not searchable')], default='reading', max_length=7)),
                ('problem', models.TextField(blank=True)),
                ('pages', models.PositiveIntegerField(default=0)),
                ('characters', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('added_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-created_at', 'pk'],
            },
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('description', models.CharField(blank=True, max_length=200, verbose_name='description')),
                ('instructions', models.TextField(blank=True, max_length=8000, verbose_name='instructions')),
                ('instructions_at', models.DateTimeField(null=True, verbose_name='instructions changed at')),
                ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                ('mode', models.CharField(choices=[('act', 'Act mode'), ('plan', 'Plan mode')], default='act', max_length=4, verbose_name='mode')),
                ('limits_services', models.BooleanField(default=False, verbose_name='limits services')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created at')),
                ('archived_at', models.DateTimeField(null=True, verbose_name='archived at')),
                ('deleted_at', models.DateTimeField(db_index=True, null=True, verbose_name='deleted at')),
                ('instructions_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='instructions changed by')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='projects', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
                ('services', models.ManyToManyField(blank=True, related_name='projects', to='mcpconfig.service', verbose_name='services')),
            ],
            options={
                'ordering': ['name', 'pk'],
            },
        ),
        migrations.AddField(
            model_name='conversation',
            name='project',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='conversations', to='chatapp.project', verbose_name='project'),
        ),
        migrations.CreateModel(
            name='ProjectFileData',
            fields=[
                ('file', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='content', serialize=False, to='chatapp.projectfile')),
                ('data', models.BinaryField()),
            ],
        ),
        migrations.AddField(
            model_name='projectfile',
            name='project',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='chatapp.project'),
        ),
        migrations.CreateModel(
            name='ProjectMember',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('editor', 'Can edit'), ('member', 'Can use')], default='member', max_length=6, verbose_name='role')),
                ('added_at', models.DateTimeField(auto_now_add=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='project_memberships', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='chatapp.project')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('project', 'person'), name='one_membership_of_a_person')],
            },
        ),
        migrations.CreateModel(
            name='ProjectPassage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('place_kind', models.CharField(blank=True, choices=[('', ''), ('page', 'page'), ('row', 'row'), ('heading', 'heading')], max_length=7)),
                ('place', models.CharField(blank=True, max_length=200)),
                ('text', models.TextField()),
                ('file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='chatapp.projectfile')),
            ],
            options={
                'ordering': ['file', 'number'],
                'constraints': [models.UniqueConstraint(fields=('file', 'number'), name='one_passage_of_a_number')],
            },
        ),
        migrations.RunPython(install, remove),
    ]
