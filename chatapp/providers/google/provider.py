"""What is declared of Google Gemini."""

import re

from chatapp.providers.provider import PICTURE_TYPES, FileSupport, Provider, Variables
from chatapp.providers.tools.toolbox import Dialect
from chatapp.providers.tools.wire_names import NameRule

from .schema import simplify_schema

GOOGLE_PICTURE_TYPES = PICTURE_TYPES - {"image/gif"} | {"image/heic", "image/heif"}
DIALECT = Dialect(
    label="Gemini",
    names=NameRule(letters="a-zA-Z0-9_.:-", longest=128, first="a-zA-Z_"),
    properties=NameRule(letters="a-zA-Z0-9_", longest=64, first="a-zA-Z_"),
    simplify=simplify_schema,
)

GOOGLE = Provider(
    kind="google",
    label="Google Gemini",
    module="chatapp.providers.google.gemini",
    dialect=DIALECT,
    embeddings="chatapp.providers.google.embeddings",
    embedding_models=("gemini-embedding-2", "gemini-embedding-001"),
    variables=Variables(
        label="Google",
        keys=("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
        url="GOOGLE_GEMINI_BASE_URL",
        host="generativelanguage.googleapis.com",
    ),
    models={
        "gemini-flash-latest": "Gemini Flash, latest",
        "gemini-pro-latest": "Gemini Pro, latest",
        "gemini-flash-lite-latest": "Gemini Flash-Lite, latest",
        "gemini-4-hydrogen": "Gemini 4 Hydrogen",
        "gemini-4-argon": "Gemini 4 Argon",
        "gemini-4-carbon": "Gemini 4 Carbon",
    },
    context_tokens={"gemini-4-argon": 1_048_576},
    files=FileSupport(
        without_pictures=re.compile(r"gemma-[12]\b"),
        with_pdf=re.compile(r"gemini|learnlm"),
        picture_types=GOOGLE_PICTURE_TYPES,
    ),
)
