"""Settings of the documentation: Sphinx builds it with `make docs`, warnings are errors."""

from __future__ import annotations

import os
import re
import sys

# One thread each: threads that wait for each other cost more than they gain on small examples and a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("VICINAL_THREADS", "1")

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

import vicinal
import vicinal.estimators
import vicinal.reporting

os.environ.setdefault("MPLBACKEND", "agg")
sys.modules["vicinal.plots"] = vicinal.plots  # autodoc imports names as modules; these two are attributes
sys.modules["vicinal.scorers"] = vicinal.scorers

project = "vicinal"
author = "The vicinal developers"
copyright = f"2026, {author}"
release = version = vicinal.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["generated/**/*.ipynb", "gallery/*.rst", "tutorials/*.rst", "inventories"]
templates_path = ["_templates"]
highlight_language = "none"
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(python:.*|(numpy|sklearn|torch|pandas|polars|matplotlib|pyarrow|pathlib|collections|typing)(\..*)?)"),
]

# Markdown

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Reference

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = True
add_module_names = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    **{name: f"vicinal.{name}" for name in vicinal.__all__ if name[0].isupper()},
    "ArrayLike": "numpy.typing.ArrayLike",
    "array-like": "numpy.typing.ArrayLike",
    "array_like": "numpy.typing.ArrayLike",
    "bool": "python:bool",
    "boolean": "python:bool",
    "sequence": "collections.abc.Sequence",
    "iterable": "collections.abc.Iterable",
    "mapping": "collections.abc.Mapping",
    "generator": "collections.abc.Generator",
    "scalar": "python:float",
    "ndarray": "numpy.ndarray",
    "Axes": "matplotlib.axes.Axes",
    "DataFrame": "pandas.DataFrame",
    "Path": "pathlib.Path",
    "Tensor": "torch.Tensor",
    "Module": "torch.nn.Module",
    "DataLoader": "torch.utils.data.DataLoader",
}

# Each project is asked for its list of names. Without a network the short lists in inventories/ stand in.
intersphinx_timeout = 3
intersphinx_mapping = {
    name: (address, (None, f"inventories/{name}.txt"))
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "sklearn": "https://scikit-learn.org/stable/",
        "torch": "https://docs.pytorch.org/docs/stable/",
        "matplotlib": "https://matplotlib.org/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
    }.items()
}

# Gallery and tutorials

sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "tutorials"],
    "gallery_dirs": ["generated/gallery", "generated/tutorials"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/examples",
    "doc_module": ("vicinal",),
    "copyfile_regex": r"nothing is copied$",
    "download_all_examples": False,
    "min_reported_time": 1e6,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": True,
}

# Pages

html_theme = "pydata_sphinx_theme"
html_title = "vicinal"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "vicinal"},
    "navbar_align": "left",
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The check of links to other sites needs a network: `make linkcheck`.

linkcheck_ignore = [r"http://127\.0\.0\.1.*", r"https://sets\.example\.org.*"]
linkcheck_timeout = 15
linkcheck_workers = 4


def inline_formula(translator, node: nodes.math) -> None:  # type: ignore[no-untyped-def]
    """Write a formula as MathML, which browsers draw by themselves: no script is loaded."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def displayed_formula(translator, node: nodes.math_block) -> None:  # type: ignore[no-untyped-def]
    """Write a displayed formula as MathML."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def skip_member(app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object) -> bool | None:  # noqa: FBT001
    """Leave out what scikit-learn adds to every estimator for the routing of metadata."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def escape_bars(app: Sphinx, kind: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Keep an absolute value such as |y - prediction| from being read as a substitution of reStructuredText."""
    for number, line in enumerate(lines):
        if "`" not in line and not line.lstrip().startswith(("| ", ">>>", "+")):
            lines[number] = re.sub(r"(?<!\\)\|(?=\S)", r"\\|", line)


def setup(app: Sphinx) -> None:
    """Register how formulas are written, and what is done to docstrings."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", escape_bars)
