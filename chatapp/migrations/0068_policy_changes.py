"""Policy changes with their edits, and whether they need a second admin."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chatapp', '0067_notifications'),
    ]

    operations = [
        migrations.AddField(
            model_name='housepolicy',
            name='changes_need_second',
            field=models.BooleanField(db_default=False, default=False, help_text='Rules, limits, second-approval requirements and this page then change only after another admin with the policy right approves.', verbose_name='policy changes need a second admin'),
        ),
        migrations.CreateModel(
            name='PolicyChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.CharField(help_text='Such as: Let Support mail our own domain.', max_length=120, verbose_name='title')),
                ('reason', models.TextField(blank=True, help_text='Shown to the admin who approves, and kept with the change.', max_length=1000, verbose_name='reason')),
                ('state', models.CharField(choices=[('draft', 'draft'), ('waiting', 'waiting for approval'), ('applied', 'applied'), ('rejected', 'rejected'), ('undone', 'undone'), ('discarded', 'discarded')], db_index=True, default='draft', max_length=9, verbose_name='state')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('submitted_at', models.DateTimeField(null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('applied_at', models.DateTimeField(null=True, verbose_name='applied')),
                ('checks', models.JSONField(default=dict)),
                ('checked_for', models.CharField(blank=True, max_length=64)),
                ('checked_at', models.DateTimeField(null=True)),
                ('applied_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='author')),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('undoes', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='undone_by', to='chatapp.policychange')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='PolicyEdit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('rule', 'rule'), ('limit', 'tool limit'), ('second', 'second-approval requirement'), ('house', 'policy for everybody')], max_length=6)),
                ('row_id', models.PositiveBigIntegerField(null=True)),
                ('before', models.JSONField(null=True)),
                ('after', models.JSONField(null=True)),
                ('change', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='edits', to='chatapp.policychange')),
            ],
            options={
                'ordering': ['pk'],
                'constraints': [models.UniqueConstraint(fields=('change', 'kind', 'row_id'), name='one_edit_of_a_row_in_a_change'), models.CheckConstraint(condition=models.Q(('before__isnull', False), ('after__isnull', False), _connector='OR'), name='edit_has_values')],
            },
        ),
    ]
