"""Tables of text, as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SPECIAL = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#"}


@dataclass(frozen=True)
class TextTable:
    """A caption, heads, and rows of cells."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return the table with its caption above it.

        Examples
        --------
        >>> print(TextTable("Sizes.", ["", "APS"], [["ResNet-18", "5.57"]]).markdown())
        Sizes.
        <BLANKLINE>
        | | APS |
        |---|---:|
        | ResNet-18 | 5.57 |
        """
        lines = [self._line(self.heads), "|---|" + "---:|" * (len(self.heads) - 1), *map(self._line, self.rows)]
        return f"{self.caption}\n\n" + "\n".join(lines)

    @staticmethod
    def _line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells).strip() + " |"

    def latex(self) -> str:
        """Return a booktabs table."""
        body = [self.heads, *self.rows]
        lines = [" & ".join(map(_escape, cells)) + r" \\" for cells in body]
        columns = "l" + "r" * (len(self.heads) - 1)
        return "\n".join(
            [
                r"\begin{table}", r"\centering", rf"\caption{{{_escape(self.caption)}}}",
                rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule",
                r"\end{tabular}", r"\end{table}",
            ]
        )  # fmt: skip


def _escape(cell: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in cell)
