"""Configuration of the documentation: ``.ci/docs`` builds it, with warnings as errors."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import matplotlib as mpl
from sphinx.pycode import ModuleAnalyzer
from sphinx_gallery.sorting import ExplicitOrder

import specdens

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "benchmarks"))
os.environ.setdefault("OMP_NUM_THREADS", "2")
mpl.use("agg")

import generated_pages  # noqa: E402

generated_pages.write_all(HERE)

project = "specdens"
author = "The specdens developers"
copyright = author
release = specdens.__version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a request to another server
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "data", "examples", "language_models", "reproduction", "verified_tables.md"]
templates_path = ["_templates"]
mathjax_path = "mathjax/tex-chtml.js"
nitpicky = False
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
suppress_warnings = ["config.cache", "ref.python"]  # the latter: names that several classes share

autosummary_generate = True
autodoc_typehints = "none"  # docstrings have the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = True
numpydoc_attributes_as_param_list = True

# Inventories of other projects need the network: they are read where SPECDENS_INTERSPHINX is set, as in the workflow.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
    }
    if os.environ.get("SPECDENS_INTERSPHINX")
    else {}
)

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"/__init__",
    "subsection_order": ExplicitOrder(["examples/operators", "examples/graphs", "examples/networks"]),
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("specdens", "specdens_torch"),
    "reference_url": {"specdens": None, "specdens_torch": None},
    "backreferences_dir": "reference/backreferences",
    "abort_on_example_error": True,
    "show_signature": False,
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_",),  # what is printed, not what the last line of a picture returns
    "write_computation_times": False,
    "plot_gallery": os.environ.get("SPECDENS_GALLERY", "1") == "1",
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "specdens"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["specdens.css"]
html_js_files = ["accessible.js"]
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "specdens"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
if os.environ.get("SPECDENS_VERSIONS"):  # the address of a list of versions, once there is more than one
    html_theme_options["switcher"] = {"json_url": os.environ["SPECDENS_VERSIONS"], "version_match": release}
    html_theme_options["check_switcher"] = False  # the list may be published together with this build
    html_theme_options["navbar_end"] = ["version-switcher", "theme-switcher"]


def escape_bars(_app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]) -> None:
    """Keep |λ| from being read as a substitution: escape bars outside literals and examples."""
    in_example = False
    for k, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example and "|" in line:
            parts = line.split("``")
            lines[k] = "``".join(part if i % 2 else part.replace("|", r"\|") for i, part in enumerate(parts))


def describe_alias(_app: object, _what: str, name: str, obj: object, _options: object, lines: list[str]) -> None:
    """Replace the docstring of Python's class of unions by that of the alias."""
    if isinstance(obj, types.UnionType):
        found = ModuleAnalyzer.for_module("specdens._typing").find_attr_docs()
        lines[:] = found.get(("", name.rpartition(".")[2]), lines)


def setup(app: Any) -> None:
    """Run after numpydoc."""
    app.connect("autodoc-process-docstring", describe_alias, priority=800)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
