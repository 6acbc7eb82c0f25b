"""HTML views of objects in a notebook: small tables, with all text escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

FACT = re.compile(r"(\S(?:.*?\S)?) {2,}(.*)")
"""A line with a name and, after two spaces or more, a value."""

CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top"


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table in HTML.

    Examples
    --------
    >>> "&lt;b&gt;" in html_table(["set"], [["<b>"]])
    True
    """
    head = "".join(f'<th style="{CELL}">{escape(str(one))}</th>' for one in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{escape(str(one))}</td>' for one in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{f'<tr>{head}</tr>' if headings else ''}{body}</table>"


def html_text(title: str, text: str) -> str:
    """Return text as HTML: lines with a name and a value become a table, other lines become paragraphs.

    Examples
    --------
    >>> "<th" in html_text("x", "rows   3"), "<p>All is well.</p>" in html_text("x", "All is well.")
    (False, True)
    """
    parts, facts = [f"<b>{escape(title)}</b>"], list[Sequence[str]]()
    for line in [*text.splitlines(), ""]:
        fact = FACT.fullmatch(line)
        if fact is not None:
            facts.append(re.split(r" {2,}", line.strip()))
            continue
        if facts:
            parts.append(html_table((), facts))
            facts = []
        if line.strip():
            parts.append(f"<p>{escape(line)}</p>")
    return f"<div>{''.join(parts)}</div>"
