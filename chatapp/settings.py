"""Everything that an operator can set, read from the environment (and an optional `.env` file)."""

import base64
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from .server.environment import Environment, make_error
from .server.private_files import make_private_database, make_private_file, make_private_folder
from .server.sign_in_providers import (
    build_allauth_settings,
    find_ldap_provider,
    list_provider_apps,
    list_provider_backends,
    read_providers,
)

BASE_DIR = Path(__file__).resolve().parent.parent

env = ENV = Environment()
env.read_file(BASE_DIR / ".env")

VAR_DIR = Path(env.str("VAR_DIR", default=str(BASE_DIR / "var")))


def load_secret(name: str, make: str) -> str:
    """Return a secret that the operator did not set. It is created once and stored in a file that
    only its owner can read."""
    path = VAR_DIR / name
    if not path.exists():
        make_private_folder(VAR_DIR)
        make_private_file(path, make)
    return path.read_text().strip()


# --- identity and safety -------------------------------------------------------------------
DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="") or load_secret(
    "secret_key", secrets.token_urlsafe(50)
)
ENCRYPTION_KEYS = env.list("ENCRYPTION_KEYS", default=[]) or [
    load_secret("encryption_key", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
]
LOG_SIGNING_KEY = env.str("LOG_SIGNING_KEY", default="") or load_secret(
    "log_signing_key", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
)
# Where the end of the log is written, signed: stdout, file:/path, mailto:name@host, https://…
LOG_ANCHORS = env.list("LOG_ANCHORS", default=[])
LOG_ANCHOR_SECONDS = env.float("LOG_ANCHOR_SECONDS", default=3_600)
PUBLIC_URL = env.str("PUBLIC_URL", default="").rstrip("/")
# Every request for /metrics must send it.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="") or load_secret(
    "metrics_token", secrets.token_urlsafe(32)
)
if len(METRICS_TOKEN) < 16:
    raise make_error("METRICS_TOKEN", "at least 16 characters long")
# Only these may say in a header from where a request came and whether it was encrypted.
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES", default=["127.0.0.1", "::1"])
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
ALLOWED_ORIGINS = env.list("ALLOWED_ORIGINS", default=[PUBLIC_URL] if PUBLIC_URL else [])
CSRF_TRUSTED_ORIGINS = ALLOWED_ORIGINS
CSRF_COOKIE_HTTPONLY = True
SESSION_ENGINE = "chatapp.server.sessions"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
SECURE_HSTS_SECONDS = 31_536_000 if SESSION_COOKIE_SECURE else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SESSION_COOKIE_SECURE else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "worker-src": [SELF],
        "manifest-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "media-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        # A chat frames apps of tools and previews of code, each sandboxed by its own policy. It may
        # be opened inside any page, whose policy stays.
        "frame-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}

# --- the application -----------------------------------------------------------------------
INSTALLED_APPS = [
    "chatapp",
    "mcpconfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "django_tasks",
    "chatapp.background.apps.TasksConfig",
    "django_htmx",
    "csp",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.usersessions",
]
MIDDLEWARE = [
    "chatapp.middleware.IsolationHeaders",
    "chatapp.middleware.ReleaseConnection",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "chatapp.middleware.use_language",
    "chatapp.middleware.NoStore",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "chatapp.middleware.FormTextLimit",
    "django.middleware.csrf.CsrfViewMiddleware",
    "chatapp.middleware.SameOriginOnly",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "chatapp.middleware.use_time_zone",
    "chatapp.middleware.PasswordFirst",
    "chatapp.middleware.SecondFactorFirst",
    "chatapp.middleware.SessionTracking",
    "chatapp.middleware.set_log_actor",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "chatapp.urls"
ASGI_APPLICATION = "chatapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "chatapp.views.access.add_live_address",
                "chatapp.views.chat.uploads.add_file_limits",
                "chatapp.views.access.add_theme",
                "chatapp.views.account.notification_choices.add_page_notifications",
            ],
        },
    }
]

# --- people --------------------------------------------------------------------------------
AUTH_USER_MODEL = "chatapp.Member"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "chatapp.people.admin_rights.AdminRightsBackend",
]
PASSWORD_HASHERS = ["chatapp.people.password_hasher.Argon2InTurn"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
AXES_FAILURE_LIMIT = env.int("SIGN_IN_FAILURE_LIMIT", default=5)
SIGN_IN_ADDRESS_FAILURE_LIMIT = env.int("SIGN_IN_ADDRESS_FAILURE_LIMIT", default=50)
# A lock ends after a minute whatever comes meanwhile, so that nobody can lock others out for long.
AXES_COOLOFF_TIME = timedelta(minutes=1)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_HANDLER = "chatapp.people.sign_in_limits.SignInLimits"
AXES_USERNAME_CALLABLE = "chatapp.people.sign_in_limits.get_counted_name"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_LOCKOUT_CALLABLE = "chatapp.views.account.sign_in.too_many_tries"
AXES_ENABLE_ADMIN = False
AXES_DISABLE_ACCESS_LOG = True  # nobody reads its addresses, and they would be kept for ever

# --- signing in by a provider, and second factors (django-allauth; docs/accounts.md) ----------
SIGN_IN_PROVIDERS = read_providers(env)
INSTALLED_APPS += list_provider_apps(SIGN_IN_PROVIDERS)
AUTHENTICATION_BACKENDS += list_provider_backends(SIGN_IN_PROVIDERS)
# Without passwords, members sign in by a provider or a passkey, and the operator by a link.
PASSWORD_SIGN_IN = env.bool("PASSWORD_SIGN_IN", default=True)
if find_ldap_provider(SIGN_IN_PROVIDERS) and not PASSWORD_SIGN_IN:
    raise make_error("PASSWORD_SIGN_IN", "1 where SIGN_IN_PROVIDERS has one of the kind ldap")
REQUIRE_TWO_FACTOR = env.choice("REQUIRE_TWO_FACTOR", "none", "admins", "all")
# Which groups here the groups of a directory stand for, over SCIM.
SCIM_GROUPS = env.text_map("SCIM_GROUPS")
SCIM_REQUESTS_PER_MINUTE = env.int("SCIM_REQUESTS_PER_MINUTE", default=1_500)
RECENT_SIGN_IN_SECONDS = 600
# Each answer of a provider is there within this time, redirects and body included.
PROVIDER_SECONDS = 10.0
ACCOUNT_ADAPTER = "chatapp.accounts.sign_in_adapter.SignInAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_LOGIN_TIMEOUT = 600
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = False
ACCOUNT_REAUTHENTICATION_METHODS = [*(["password"] if PASSWORD_SIGN_IN else []), "mfa"]
ACCOUNT_REAUTHENTICATION_TIMEOUT = RECENT_SIGN_IN_SECONDS
SOCIALACCOUNT_ADAPTER = "chatapp.accounts.provider_adapter.ProviderAdapter"
SOCIALACCOUNT_PROVIDERS = build_allauth_settings(SIGN_IN_PROVIDERS)
SOCIALACCOUNT_QUERY_EMAIL = True
SOCIALACCOUNT_STORE_TOKENS = False
MFA_ADAPTER = "chatapp.accounts.second_factor.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_FORMS = {
    "authenticate": "chatapp.accounts.second_factor_forms.CodeForm",
    "reauthenticate": "chatapp.accounts.second_factor_forms.ConfirmingCodeForm",
    "authenticate_webauthn": "chatapp.accounts.second_factor_forms.PasskeyForm",
    "reauthenticate_webauthn": "chatapp.accounts.second_factor_forms.ConfirmingPasskeyForm",
    "login_webauthn": "chatapp.accounts.second_factor_forms.PasskeySignInForm",
    "add_webauthn": "chatapp.accounts.second_factor_forms.NewPasskeyForm",
}
MFA_PASSKEY_LOGIN_ENABLED = True
# A passkey cannot be guessed. Many people may sign in behind one address.
MFA_RATE_LIMITS = {"webauthn_login": "300/m/ip"}
MFA_TOTP_TOLERANCE = 1
MFA_TOTP_ISSUER = "Countersign"
MFA_RECOVERY_CODE_DIGITS = 10

# --- storage -------------------------------------------------------------------------------
DATABASES = {
    "default": env.db("DATABASE_URL", default=f"sqlite:///{VAR_DIR / 'countersign.sqlite3'}")
}
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# How many connections to PostgreSQL the requests of one process have at the same time.
DATABASE_CONNECTIONS = env.int("DATABASE_CONNECTIONS", default=10)
if DATABASE_CONNECTIONS < 1:
    raise make_error("DATABASE_CONNECTIONS", "at least 1")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    make_private_folder(VAR_DIR)
    make_private_database(str(DATABASES["default"]["NAME"]))
    DATABASES["default"]["ENGINE"] = "chatapp.server.sqlite"
    # IMMEDIATE waits for the write lock instead of failing half-way; FULL keeps a committed
    # `sending` row across a power cut. Without it a call that was sent could be sent again.
    DATABASES["default"]["OPTIONS"] = DATABASES["default"].get("OPTIONS", {}) | {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA journal_size_limit=67108864;"
        ),
    }
elif DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    DATABASES["default"]["ENGINE"] = "chatapp.server.postgresql"
    # A process that freezes inside a transaction must not keep its locks.
    DATABASES["default"]["OPTIONS"] = DATABASES["default"].get("OPTIONS", {}) | {
        "options": "-c idle_in_transaction_session_timeout=15000 -c lock_timeout=20000",
        # A server that disappears must not block a thread until TCP gives up.
        "connect_timeout": 5,
        "tcp_user_timeout": 15_000,
    }
REDIS_URL = env.str("REDIS_URL", default="")
CHANNEL_LAYERS: dict[str, dict[str, object]] = {}
if REDIS_URL:
    CHANNEL_LAYERS["default"] = {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
elif DATABASES["default"]["ENGINE"] == "chatapp.server.postgresql":
    CHANNEL_LAYERS["default"] = {
        "BACKEND": "chatapp.server.postgresql.channel_layer.NotifyChannelLayer",
        "CONFIG": {"database": DATABASES["default"]},
    }
# SQLite has no layer: a single process has no other process to send hints to.

# --- pages ---------------------------------------------------------------------------------
STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "chatapp.server.static_files.BundleFinder",
]
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "chatapp.server.static_files.CompressedStorage"},
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_ALLOW_ALL_ORIGINS = False
LANGUAGE_CODE = "en"
# Each but English has a folder in locale/.
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
# Languages made by code, in which faults of a layout show; see translations/pseudo_locales.py.
PSEUDO_LOCALES = env.bool("PSEUDO_LOCALES", default=False)
if PSEUDO_LOCALES:
    LANGUAGES += [("en-xa", "Pseudo, longer"), ("ar-xb", "Pseudo, right to left")]
    LOCALE_PATHS += [VAR_DIR / "pseudo_locales"]
FORMAT_MODULE_PATH = "chatapp.server.formats"
# The zone of people who chose none, and of the days on which rights depend.
TIME_ZONE = env.time_zone("TIME_ZONE", default="UTC")
USE_TZ = True
# The page that confirms a service's tools sends a field for each tool, up to a thousand.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1_100

# --- models --------------------------------------------------------------------------------
DEMO = env.bool("DEMO", default=True)
DEFAULT_MODEL = env.str("DEFAULT_MODEL", default="")
# Empty: the model of the chat; "none": the first words of a chat stay its title.
TITLE_MODEL = env.str("TITLE_MODEL", default="")
MESSAGE_MAX_CHARACTERS = env.int("MESSAGE_MAX_CHARACTERS", default=100_000)
# The size of a form's text in bytes. A browser sends at most twelve bytes for a character, so more
# than this is too long for a message.
DATA_UPLOAD_MAX_MEMORY_SIZE = max(2_500_000, 13 * MESSAGE_MAX_CHARACTERS)

# --- links that show a chat to others ---------------------------------------------------------
SHARE_WITH_ANYONE = env.bool("SHARE_WITH_ANYONE", default=False)

# --- files that people add to a message ------------------------------------------------------
FILE_MAX_BYTES = env.int("FILE_MAX_BYTES", default=20_000_000)
MESSAGE_MAX_FILES = env.int("MESSAGE_MAX_FILES", default=10)
MESSAGE_MAX_BYTES = env.int("MESSAGE_MAX_BYTES", default=50_000_000)
DRAFTS_MAX_BYTES = env.int("DRAFTS_MAX_BYTES", default=200_000_000)
REQUEST_MAX_BYTES = env.int("REQUEST_MAX_BYTES", default=100_000_000)
# A file of chats from another program.
IMPORT_MAX_BYTES = env.int("IMPORT_MAX_BYTES", default=200_000_000)
PDF_MAX_PAGES = env.int("PDF_MAX_PAGES", default=100)
# PDF_SECONDS was its name while only PDF files were read.
FILE_READ_SECONDS = env.float("FILE_READ_SECONDS", default=env.float("PDF_SECONDS", default=20))
FILE_UPLOAD_HANDLERS = ["chatapp.views.chat.uploads.BoundedUpload"]
# Where new files are stored: "database", "folder" or "s3". Files stay readable where they are.
FILE_STORAGE = env.str("FILE_STORAGE", default="database")
STORAGES["folder"] = {
    "BACKEND": "django.core.files.storage.FileSystemStorage",
    "OPTIONS": {
        "location": env.str("FILE_FOLDER", default=str(VAR_DIR / "files")),
        "file_permissions_mode": 0o600,
        "directory_permissions_mode": 0o700,
    },
}
if env.str("S3_BUCKET", default=""):
    STORAGES["s3"] = {
        "BACKEND": "chatapp.server.object_storage.BoundedS3Storage",
        "OPTIONS": {
            "bucket_name": env.str("S3_BUCKET"),
            "endpoint_url": env.str("S3_ENDPOINT", default="") or None,
            "region_name": env.str("S3_REGION", default="") or None,
            "access_key": env.str("S3_ACCESS_KEY", default="") or None,
            "secret_key": env.str("S3_SECRET_KEY", default="") or None,
            "location": env.str("S3_PREFIX", default=""),
            "addressing_style": env.str("S3_ADDRESSING", default="auto"),
            "object_parameters": env.json("S3_PARAMETERS", default={}),
        },
    }
if FILE_STORAGE not in {"database", *STORAGES} - {"default", "staticfiles"}:
    raise make_error("FILE_STORAGE", "database, folder or s3 (which needs S3_BUCKET)")

# --- bounds of connections and requests, for one server process ------------------------------
CONNECTIONS_MAX = env.int("CONNECTIONS_MAX", default=2_000)
SOCKETS_PER_PERSON = env.int("SOCKETS_PER_PERSON", default=50)
API_REQUESTS_PER_MINUTE = env.int("API_REQUESTS_PER_MINUTE", default=600)
UPLOADS_PER_MINUTE = env.int("UPLOADS_PER_MINUTE", default=60)
SHARED_REQUESTS_PER_MINUTE = env.int("SHARED_REQUESTS_PER_MINUTE", default=120)
SHARED_FILES_PER_MINUTE = env.int("SHARED_FILES_PER_MINUTE", default=1_200)
SHARED_COPIES_PER_MINUTE = env.int("SHARED_COPIES_PER_MINUTE", default=10)
HEADER_SECONDS = env.float("HEADER_SECONDS", default=20)
BODY_SECONDS = env.float("BODY_SECONDS", default=30)

# --- bounds: every turn reaches a final or waiting state within one -------------------------
LEASE_SECONDS = env.float("LEASE_SECONDS", default=15)
SWEEP_SECONDS = env.float("SWEEP_SECONDS", default=5)
DRAIN_SECONDS = env.float("DRAIN_SECONDS", default=0)
SHUTDOWN_SECONDS = env.float("SHUTDOWN_SECONDS", default=20)
MODEL_FIRST_BYTE_SECONDS = env.float("MODEL_FIRST_BYTE_SECONDS", default=60)
MODEL_IDLE_SECONDS = env.float("MODEL_IDLE_SECONDS", default=60)
# How many answers of Bedrock one process reads at the same time, each in its own thread.
BEDROCK_STREAMS = env.int("BEDROCK_STREAMS", default=100)
MCP_TOTAL_SECONDS = env.float("MCP_TOTAL_SECONDS", default=60)
MCP_IDLE_SECONDS = env.float("MCP_IDLE_SECONDS", default=30)
# How old the list of tools may be when an approved call that is not of low risk is sent.
TOOL_LIST_SECONDS = env.float("TOOL_LIST_SECONDS", default=30)
OUTBOUND_PROXY = env.str("OUTBOUND_PROXY", default="")
TRACE_DELAY_SECONDS = env.float("TRACE_DELAY_SECONDS", default=0.25)
TRACE_DAYS = env.float("TRACE_DAYS", default=14)
TRACE_EXCHANGES = env.int("TRACE_EXCHANGES", default=500)
TRACE_BODY_BYTES = env.int("TRACE_BODY_BYTES", default=16_384)
APPROVAL_DAYS = env.float("APPROVAL_DAYS", default=7)
QUESTION_ROUNDS = env.int("QUESTION_ROUNDS", default=10)
QUESTION_WAIT_SECONDS = env.float("QUESTION_WAIT_SECONDS", default=120)
QUESTION_DAYS = env.float("QUESTION_DAYS", default=7)
TASK_DAYS = env.float("TASK_DAYS", default=7)
SIGN_IN_SECONDS = env.float("SIGN_IN_SECONDS", default=600)
TURN_MAX_STEPS = env.int("TURN_MAX_STEPS", default=25)
TURN_MAX_SECONDS = env.float("TURN_MAX_SECONDS", default=1_800)
TURN_MAX_TOKENS = env.int("TURN_MAX_TOKENS", default=2_000_000)
TURN_MAX_CALLS = env.int("TURN_MAX_CALLS", default=100)
# In percent of a model's context. Tools that need more are found by a search instead of listed.
TOOL_SHARE_PERCENT = env.float("TOOL_SHARE_PERCENT", default=5.0)

# --- mail about open approvals; not sent without a server ------------------------------------
mail_server = env.mail_server("EMAIL_URL")
SENDS_MAIL = bool(mail_server)
EMAIL_HOST = mail_server.get("EMAIL_HOST", "")
EMAIL_PORT = mail_server.get("EMAIL_PORT") or 25
EMAIL_HOST_USER = mail_server.get("EMAIL_HOST_USER") or ""
EMAIL_HOST_PASSWORD = mail_server.get("EMAIL_HOST_PASSWORD") or ""
EMAIL_USE_TLS = mail_server.get("EMAIL_USE_TLS", False)
EMAIL_USE_SSL = mail_server.get("EMAIL_USE_SSL", False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("EMAIL_FROM", default="")
if SENDS_MAIL and not DEFAULT_FROM_EMAIL:
    raise make_error("EMAIL_FROM", "the address that mails come from, since EMAIL_URL is set")
MAIL_AFTER_MINUTES = env.float("MAIL_AFTER_MINUTES", default=5)

# --- push messages to devices, and webhooks of admins -----------------------------------------
PUSH_NOTIFICATIONS = env.bool("PUSH_NOTIFICATIONS", default=True)
# Hosts in the operator's own network that push services and webhooks may have, also by http. People
# name the first in their browsers, admins the second.
PUSH_PRIVATE_HOSTS = env.list("PUSH_PRIVATE_HOSTS", default=[])
WEBHOOK_PRIVATE_HOSTS = env.list("WEBHOOK_PRIVATE_HOSTS", default=[])

# --- work that is no part of a turn ----------------------------------------------------------
TASKS_BACKEND = env.str("TASKS_BACKEND", default="django_tasks_db.DatabaseBackend")
TASKS = {
    "default": {
        "BACKEND": TASKS_BACKEND,
        "OPTIONS": env.json_object("TASKS_OPTIONS"),
    }
}
# Whether `serve` runs tasks. If not, `manage.py run_tasks` does.
TASKS_WORKER = env.bool("TASKS_WORKER", default=True)
TASKS_POLL_SECONDS = env.float("TASKS_POLL_SECONDS", default=5)
TASKS_MAX_SECONDS = env.float("TASKS_MAX_SECONDS", default=120)

# --- logs: one line an event; the SDKs say too much (bodies, session ids) below WARNING ------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
        "json": {"()": "chatapp.telemetry.log_ids.JsonLines"},
    },
    "filters": {
        "outages": {"()": "chatapp.server.log_filters.OutageFilter"},
        "departures": {"()": "chatapp.server.log_filters.DepartureFilter"},
        "ids": {"()": "chatapp.telemetry.log_ids.IdsFilter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": env.choice("LOG_FORMAT", "text", "json"),
            "filters": ["outages", "departures", "ids"],
        }
    },
    "root": {"handlers": ["console"], "level": env.log_level("LOG_LEVEL", default="INFO")},
    "loggers": {
        name: {"level": "WARNING"}
        for name in (
            *("mcp", "httpx2", "httpcore2", "openai", "axes", "uvicorn.access"),
            *("django_tasks", "django_tasks_db"),
        )
    }
    # Anybody can send an id that is not used, and each would be an entry.
    | {"asgi_correlation_id": {"level": "ERROR"}}
    # Without Redis it logs a traceback each second. The hub logs that it polls instead.
    | {"channels_redis": {"level": "CRITICAL"}},
}
