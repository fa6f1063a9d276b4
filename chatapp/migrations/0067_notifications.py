"""Notifications: preferences, push devices and their keys, webhooks, and what was told."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('chatapp', '0066_directories'),
    ]

    operations = [
        migrations.CreateModel(
            name='NotificationPreference',
            fields=[
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='notification_preference', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('pushes_waiting', models.BooleanField(default=True)),
                ('pushes_answers', models.BooleanField(default=True)),
                ('shows_titles', models.BooleanField(default=True)),
                ('uses_webhooks', models.BooleanField(default=True)),
            ],
        ),
        migrations.CreateModel(
            name='PushKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_key', models.CharField(max_length=100, unique=True)),
                ('sealed_private_key', models.BinaryField(default=b'')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='PushDevice',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('address_hash', models.CharField(max_length=64, unique=True)),
                ('sealed_subscription', models.BinaryField(default=b'')),
                ('session_key', models.CharField(db_index=True, max_length=40)),
                ('name', models.CharField(max_length=100)),
                ('is_phone', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_devices', to=settings.AUTH_USER_MODEL)),
                ('key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='chatapp.pushkey')),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, unique=True, verbose_name='name')),
                ('format', models.CharField(choices=[('slack', 'Slack'), ('teams', 'Microsoft Teams'), ('matrix', 'Matrix'), ('json', 'JSON, signed')], max_length=6, verbose_name='format')),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('host', models.CharField(editable=False, max_length=255, verbose_name='host')),
                ('room', models.CharField(blank=True, help_text='The ID of the Matrix room, such as !room:example.org.', max_length=255, verbose_name='room')),
                ('sealed_address', models.BinaryField(default=b'', verbose_name='sealed address')),
                ('sealed_secret', models.BinaryField(default=b'', verbose_name='sealed secret')),
                ('audience', models.CharField(choices=[('everyone', 'Every member'), ('chosen', 'Certain groups and members')], default='everyone', max_length=8, verbose_name='whose events')),
                ('sends_waiting', models.BooleanField(default=True, help_text='Approvals, questions, sign-ins, reviews and unknown outcomes.', verbose_name='requests that wait')),
                ('sends_answers', models.BooleanField(default=False, help_text='Answers that ended while their chat was not open.', verbose_name='finished answers')),
                ('sent_at', models.DateTimeField(editable=False, null=True, verbose_name='last sent')),
                ('failed_at', models.DateTimeField(editable=False, null=True, verbose_name='last failure')),
                ('failure', models.CharField(blank=True, default='', max_length=300, verbose_name='reason of the failure')),
                ('groups', models.ManyToManyField(blank=True, related_name='webhooks', to='auth.group', verbose_name='groups')),
                ('members', models.ManyToManyField(blank=True, related_name='webhooks', to=settings.AUTH_USER_MODEL, verbose_name='members')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('thing', models.CharField(blank=True, default='', max_length=60)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('sent_at', models.DateTimeField(null=True)),
                ('call', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chatapp.toolcall')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chatapp.conversation')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('turn', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chatapp.turn')),
                ('webhook', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chatapp.webhook')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('person', 'call', 'thing'), name='one_push_about_a_thing'), models.UniqueConstraint(fields=('webhook', 'call', 'thing'), name='one_post_about_a_thing'), models.UniqueConstraint(fields=('person', 'turn'), name='one_push_about_a_turn'), models.UniqueConstraint(fields=('webhook', 'turn'), name='one_post_about_a_turn')],
            },
        ),
    ]
