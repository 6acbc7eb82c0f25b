"""Write a report as one self-contained HTML document: skeleton, style, script, data and plotly.js."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from vicinal._util.extras import needs

SLOT = re.compile(r"\{\{(\w+)\}\}")


def render(data: Mapping[str, object]) -> str:
    """Return a report as one HTML document that needs no network."""
    with needs("plotly", "plots"):
        from plotly.offline import get_plotlyjs

    parts = {
        "title": escape(str(data.get("title", "vicinal"))).encode("ascii", "xmlcharrefreplace").decode("ascii"),
        "style": _text("page.css"),
        "data": embed(data),
        "plotly": str(get_plotlyjs()).replace("</script", r"<\/script"),
        "script": f"{_text('shared.js')}\n{_text('page.js')}",
    }
    # one pass, so that a slot's name inside the data or a script is not replaced
    return SLOT.sub(lambda match: parts[match[1]], _text("page.html"))


def embed(data: object) -> str:
    r"""Return JSON that cannot end the script element around it, with null for NaN and infinities.

    Examples
    --------
    >>> embed({"name": "</script>", "size": float("inf")})
    '{"name":"\\u003c/script>","size":null}'
    """
    text = json.dumps(_finite(data), allow_nan=False, separators=(",", ":"))  # ASCII, so U+2028 and U+2029 are escaped
    return text.replace("<", r"\u003c")


def _finite(value: object) -> object:
    """Return `value` with None for each float that JSON cannot hold."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _text(name: str) -> str:
    """Return the text of a file in this folder."""
    return files("vicinal.reporting").joinpath(name).read_text(encoding="utf-8")
