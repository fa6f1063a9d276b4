"""How Mermaid draws the diagrams of answers: what a diagram may do, and its colours."""

import json
from typing import Any, Final

MOST_CHARACTERS: Final = 20_000
# A diagram cannot change what is in `secure`. Larger ones would hold up the browser.
_DRAWING: Final[dict[str, Any]] = {
    "startOnLoad": False,
    "securityLevel": "strict",
    "suppressErrorRendering": True,
    "maxTextSize": MOST_CHARACTERS,
    "maxEdges": 300,
    "theme": "base",
    "fontFamily": "system-ui, sans-serif",
    "secure": [
        *("secure", "securityLevel", "startOnLoad", "maxTextSize", "maxEdges"),
        *("suppressErrorRendering", "fontFamily", "theme", "themeVariables", "themeCSS"),
    ],
}
_LIGHT: Final = {
    "background": "#f6f5f2",
    "primaryColor": "#e9ebfb",
    "primaryBorderColor": "#8b95da",
    "primaryTextColor": "#20222a",
    "lineColor": "#5d606c",
    "edgeLabelBackground": "#f6f5f2",
    "textColor": "#20222a",
    "secondaryColor": "#e2efe6",
    "tertiaryColor": "#f7eddc",
    "noteBkgColor": "#f7eddc",
    "noteTextColor": "#20222a",
    "noteBorderColor": "#c7a96a",
}
_DARK: Final = {
    "darkMode": True,
    "background": "#111218",
    "primaryColor": "#2b3050",
    "primaryBorderColor": "#7c88d6",
    "primaryTextColor": "#ebeae6",
    "lineColor": "#a2a4ad",
    "edgeLabelBackground": "#111218",
    "textColor": "#ebeae6",
    "secondaryColor": "#22392c",
    "tertiaryColor": "#3d3320",
    "noteBkgColor": "#3d3320",
    "noteTextColor": "#ebeae6",
    "noteBorderColor": "#9d8450",
}


def build_drawing_options(theme: str) -> dict[str, str]:
    """Return the options of Mermaid for a light and for a dark page, as JSON. `theme` is the one
    that the person chose, or empty."""
    themes = {"light": _LIGHT, "dark": _DARK}
    return {
        name: json.dumps({**_DRAWING, "themeVariables": themes.get(theme, variables)})
        for name, variables in themes.items()
    }
