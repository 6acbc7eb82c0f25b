"""What the library says of its arguments, said of columns and options."""

from __future__ import annotations

PHRASES = {
    "pass them as the second argument of ModelOutputs.from_...": "give a column representations",
    "or use method=Split(), which needs none": "or calibrate with --method split, which needs none",
    "use ModelOutputs.from_logits or .from_probabilities. Got RegressionOutputs.": "give logits or probabilities.",
    "use ModelOutputs.from_predictions or .from_quantiles. Got ClassificationOutputs.": (
        "give predictions, or lower and upper."
    ),
    "If these are unnormalized outputs, use ModelOutputs.from_logits.": (
        "If these are unnormalized outputs, call the column logits."
    ),
    "use ModelOutputs.from_predictions, or CQR() with quantiles": (
        "give a column predictions, or calibrate with --score cqr"
    ),
    "use ModelOutputs.from_predictions(..., scales=...)": "give a column scales",
    "use ModelOutputs.from_quantiles(lower, upper, ...)": "give columns lower and upper",
    "Pass class_names to ModelOutputs to use names": "Give --class-names to use names",
    "Use method=SplitReference(), whose guarantee is as exact with any search, or search=ExactSearch().": (
        "Add --method split-reference, whose guarantee is as exact with any search, or leave out --search."
    ),
    "use n_neighbors=k, or search=ExactSearch()": "give --neighbors a number, or leave out --search",
    "Give more (memory=..., or VICINAL_MEMORY)": "Give more (--memory, or VICINAL_MEMORY)",
    "fewer rows or columns, or search=FaissSearch(...)": "fewer rows or columns, or calibrate with --search ivf",
    "or n_neighbors=None for everyone": "or --neighbors all for everyone",
    "or calibrate with a localizer of your own choice": "or calibrate with --neighbors of your own choice",
}
"""Phrases of messages, and what to say in their place on the command line."""


def as_options(words: str) -> str:
    """Return a message of the library as the command line says it.

    Examples
    --------
    >>> as_options("Use fewer, or n_neighbors=None for everyone.")
    'Use fewer, or --neighbors all for everyone.'
    """
    for phrase, instead in PHRASES.items():
        words = words.replace(phrase, instead)
    return words
