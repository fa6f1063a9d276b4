from django.db import migrations, models


def tell_kinds_apart(apps, schema_editor):
    """Notices were one kind: Stop has its sentence, and what a failed turn says is an error."""
    notices = apps.get_model("chatapp", "Part").objects.filter(kind="notice")
    notices.update(notice_kind="info")
    notices.filter(message__turn_answered__state="failed").update(notice_kind="error")
    notices.filter(text="Stopped by you.").update(notice_kind="stopped")


class Migration(migrations.Migration):
    dependencies = [("chatapp", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="part",
            name="notice_kind",
            field=models.CharField(
                blank=True,
                choices=[("info", "Info"), ("stopped", "Stopped"), ("error", "Error")],
                max_length=7,
            ),
        ),
        migrations.RunPython(tell_kinds_apart, migrations.RunPython.noop, elidable=True),
    ]
