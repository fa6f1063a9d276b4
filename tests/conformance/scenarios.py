"""The client scenarios of the suite, listed so that each can be a test of its own. A test compares
the list with that of the suite."""

_BOTH = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
]

_EARLIER_ONLY = [
    "auth/cross-app-access-complete-flow",
]

_LATER_ONLY = [
    "request-metadata",
    "auth/authorization-server-migration",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
]

BY_VERSION = {"0.1.16": _BOTH + _EARLIER_ONLY, "0.2.0-alpha.12": _BOTH + _LATER_ONLY}

# Scenarios of the later version that belong to 2025-11-25 and to 2026-07-28.
IN_BOTH_REVISIONS = [
    "tools_call",
    *(name for name in _BOTH if name.startswith(("auth/metadata-", "auth/scope-", "auth/token-"))),
    "auth/basic-cimd",
    "auth/pre-registration",
    "json-schema-2020-12-preservation",
]
