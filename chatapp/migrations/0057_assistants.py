"""Assistants, saved prompts, and which assistant a chat was started with."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('chatapp', '0056_shared_links'),
        ('mcpconfig', '0017_free_destinations'),
    ]

    operations = [
        migrations.CreateModel(
            name='Assistant',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('audience', models.CharField(choices=[('owner', 'Only me'), ('group', 'A group'), ('everyone', 'Everyone')], default='owner', max_length=8, verbose_name='who can use it')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created at')),
                ('changed_at', models.DateTimeField(auto_now=True, verbose_name='changed at')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('description', models.CharField(blank=True, max_length=200, verbose_name='description')),
                ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                ('effort', models.CharField(blank=True, max_length=6, verbose_name='effort')),
                ('mode', models.CharField(choices=[('act', 'Act mode'), ('plan', 'Plan mode')], default='act', max_length=4, verbose_name='mode')),
                ('uses_tools', models.BooleanField(default=True, verbose_name='uses tools')),
                ('limits_services', models.BooleanField(default=False, verbose_name='limits services')),
                ('instructions', models.TextField(blank=True, max_length=8000, verbose_name='instructions')),
                ('starters', models.JSONField(blank=True, default=list, verbose_name='starters')),
                ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='auth.group', verbose_name='group')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
                ('services', models.ManyToManyField(blank=True, related_name='assistants', to='mcpconfig.service', verbose_name='services')),
            ],
            options={
                'ordering': ['name', 'pk'],
            },
        ),
        migrations.AddField(
            model_name='conversation',
            name='assistant',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='conversations', to='chatapp.assistant', verbose_name='assistant'),
        ),
        migrations.CreateModel(
            name='SavedPrompt',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('audience', models.CharField(choices=[('owner', 'Only me'), ('group', 'A group'), ('everyone', 'Everyone')], default='owner', max_length=8, verbose_name='who can use it')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created at')),
                ('changed_at', models.DateTimeField(auto_now=True, verbose_name='changed at')),
                ('title', models.CharField(max_length=80, verbose_name='title')),
                ('text', models.TextField(max_length=8000, verbose_name='text')),
                ('group', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='auth.group', verbose_name='group')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
            ],
            options={
                'ordering': ['title', 'pk'],
            },
        ),
        migrations.AddIndex(
            model_name='assistant',
            index=models.Index(fields=['audience', 'group'], name='shared_assistants'),
        ),
        migrations.AddIndex(
            model_name='savedprompt',
            index=models.Index(fields=['audience', 'group'], name='shared_prompts'),
        ),
    ]
