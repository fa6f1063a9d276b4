"""The name of the file that a code block is downloaded as."""

from typing import Final

from .values import CodeBlock

# By the name after the fence. Other names of languages that are short are endings already.
_ENDINGS: Final = {
    **dict.fromkeys(["bash", "shell", "zsh"], "sh"),
    **dict.fromkeys(["python", "python3", "py3"], "py"),
    **dict.fromkeys(["docker", "dockerfile"], "dockerfile"),
    **dict.fromkeys(["make", "makefile"], "mk"),
    **dict.fromkeys(["powershell", "ps1"], "ps1"),
    **dict.fromkeys(["latex", "tex"], "tex"),
    **dict.fromkeys(["diff", "udiff", "patch"], "diff"),
    **dict.fromkeys(["markdown", "md"], "md"),
    **dict.fromkeys(["terraform", "hcl"], "tf"),
    **dict.fromkeys(["yaml", "yml"], "yaml"),
    **{"clojure": "clj", "csharp": "cs", "elixir": "ex", "erlang": "erl", "fortran": "f90"},
    **{"haskell": "hs", "javascript": "js", "jinja": "j2", "julia": "jl", "kotlin": "kt"},
    **{"matlab": "m", "objective-c": "m", "ocaml": "ml", "perl": "pl", "protobuf": "proto"},
    **{"ruby": "rb", "rust": "rs", "solidity": "sol", "typescript": "ts"},
}
_NAMES: Final = (
    "c cpp css csv dart go graphql groovy html http ini java js json json5 jsx lua nginx nix php "
    "properties py r rb rs scala scss sql svg swift toml ts tsx txt vue xml zig"
)
_AS_THEY_ARE: Final = frozenset(_NAMES.split())


def name_code_file(code: CodeBlock) -> str:
    """Return a name that ends as files in this language do; `.txt` where that is not known."""
    language = code.language.lower()
    ending = language if language in _AS_THEY_ARE else _ENDINGS.get(language, "txt")
    return f"code.{ending}"
