import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Calls that pause: for an answer, a sign-in or a long task."""

    dependencies = [
        ("chatapp", "0004_attachment"),
    ]

    operations = [
        migrations.AlterField(
            model_name="part",
            name="notice_kind",
            field=models.CharField(
                blank=True,
                choices=[
                    ("info", "Info"),
                    ("stopped", "Stopped"),
                    ("error", "Error"),
                    ("sign_in", "Sign In"),
                ],
                max_length=7,
            ),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="cancel_requested",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="pauses",
            field=models.PositiveIntegerField(
                default=0,
                help_text="Attempts that the service ended with a demand, before it did it.",
            ),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="progress_done",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="progress_total",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="toolcall",
            name="waits_until",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterField(
            model_name="toolcall",
            name="state",
            field=models.CharField(
                choices=[
                    ("proposed", "deciding"),
                    ("awaiting_approval", "waiting for approval"),
                    ("awaiting_input", "waiting for your answer"),
                    ("awaiting_sign_in", "waiting for sign-in"),
                    ("awaiting_task", "running"),
                    ("approved", "running"),
                    ("sending", "running"),
                    ("succeeded", "done"),
                    ("failed", "failed"),
                    ("unknown", "outcome unknown"),
                    ("denied", "denied"),
                    ("refused", "refused by policy"),
                    ("expired", "expired"),
                    ("withdrawn", "withdrawn"),
                    ("cancelled", "cancelled"),
                ],
                default="proposed",
                max_length=17,
            ),
        ),
        migrations.CreateModel(
            name="RemoteTask",
            fields=[
                (
                    "tool_call",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="remote_task",
                        serialize=False,
                        to="chatapp.toolcall",
                    ),
                ),
                ("task_id", models.CharField(max_length=500)),
                ("status", models.CharField(blank=True, max_length=20)),
                ("message", models.CharField(blank=True, max_length=200)),
                ("poll_seconds", models.FloatField()),
                ("next_poll_at", models.DateTimeField(null=True)),
                ("deadline", models.DateTimeField()),
                ("failures", models.PositiveIntegerField(default=0)),
                ("wants_cancel", models.BooleanField(default=False)),
                ("is_cancelled", models.BooleanField(default=False)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["next_poll_at"], name="chatapp_rem_next_po_57f61c_idx")
                ],
            },
        ),
        migrations.CreateModel(
            name="Question",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("round", models.PositiveIntegerField()),
                ("requests", models.JSONField(default=list)),
                ("sealed_state", models.BinaryField(default=b"")),
                (
                    "source",
                    models.CharField(
                        choices=[("leg", "Leg"), ("task", "Task"), ("live", "Live")],
                        default="leg",
                        max_length=4,
                    ),
                ),
                ("is_delivered", models.BooleanField(default=False)),
                ("answers", models.JSONField(null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("answered", "Answered"),
                            ("declined", "Declined"),
                            ("cancelled", "Cancelled"),
                            ("expired", "Expired"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        default="open",
                        max_length=9,
                    ),
                ),
                ("answered_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "answered_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tool_call",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="questions",
                        to="chatapp.toolcall",
                    ),
                ),
            ],
            options={
                "ordering": ["round"],
                "indexes": [
                    models.Index(
                        fields=["state", "expires_at"], name="chatapp_que_state_ef58a3_idx"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tool_call", "round"), name="one_question_a_round"
                    )
                ],
            },
        ),
    ]
