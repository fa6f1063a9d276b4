import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """People sign in once at their company, which opens the services that trust it."""

    dependencies = [
        ("mcpconfig", "0006_open_services"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="IdentityProvider",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.SlugField(
                        help_text="Short: it is part of the address to register there.",
                        max_length=60,
                        unique=True,
                    ),
                ),
                (
                    "title",
                    models.CharField(blank=True, help_text="What people read.", max_length=100),
                ),
                (
                    "issuer",
                    models.CharField(
                        help_text="Its name, letter by letter: an address beginning with https://.",
                        max_length=2000,
                    ),
                ),
                ("client_id", models.CharField(max_length=500, verbose_name="client ID")),
                ("secret", models.BinaryField(default=b"")),
                (
                    "allows_private_addresses",
                    models.BooleanField(
                        default=False,
                        help_text="For one in your own network: permits http:// and private addresses.",
                        verbose_name="allow private addresses",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="oauthattempt",
            name="method",
            field=models.CharField(blank=True, max_length=30),
        ),
        migrations.AddField(
            model_name="oauthattempt",
            name="redirect_uri",
            field=models.CharField(blank=True, max_length=2000),
        ),
        migrations.AlterField(
            model_name="oauthattempt",
            name="client",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, to="mcpconfig.oauthclient"
            ),
        ),
        migrations.AlterField(
            model_name="service",
            name="authentication",
            field=models.CharField(
                choices=[
                    ("none", "None"),
                    ("bearer", "Bearer token"),
                    ("headers", "Headers"),
                    ("oauth_user", "Each person signs in (OAuth)"),
                    ("oauth_shared", "One sign-in for all (OAuth)"),
                    ("client_credentials", "Client credentials (OAuth)"),
                    ("company", "Company sign-in (each person)"),
                ],
                default="none",
                max_length=18,
                verbose_name="sign-in",
            ),
        ),
        migrations.CreateModel(
            name="CompanySignIn",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("issuer", models.CharField(max_length=2000)),
                ("subject", models.CharField(max_length=500)),
                ("method", models.CharField(default="none", max_length=30)),
                ("token_endpoint", models.CharField(max_length=2000)),
                ("revocation_endpoint", models.CharField(blank=True, max_length=2000)),
                ("id_token", models.BinaryField(default=b"")),
                ("refresh", models.BinaryField(default=b"")),
                ("renew_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("version", models.PositiveIntegerField(default=0)),
                ("lease", models.CharField(blank=True, max_length=32)),
                ("lease_until", models.DateTimeField(null=True)),
                ("is_dead", models.BooleanField(default=False)),
                ("connected_at", models.DateTimeField()),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "identity_provider",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sign_ins",
                        to="mcpconfig.identityprovider",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="oauthgrant",
            name="company_sign_in",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, to="mcpconfig.companysignin"
            ),
        ),
        migrations.AddField(
            model_name="oauthattempt",
            name="identity_provider",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="attempts",
                to="mcpconfig.identityprovider",
            ),
        ),
        migrations.AddField(
            model_name="service",
            name="identity_provider",
            field=models.ForeignKey(
                blank=True,
                help_text="For company sign-in: where people sign in once for all such services.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="services",
                to="mcpconfig.identityprovider",
            ),
        ),
        migrations.AddConstraint(
            model_name="companysignin",
            constraint=models.UniqueConstraint(
                fields=("identity_provider", "person"), name="one_company_sign_in_of_a_person"
            ),
        ),
    ]
