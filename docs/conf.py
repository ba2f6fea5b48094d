"""The documentation site: `make docs` builds it into docs/_build/html, without the network."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
os.environ["PYTHONPATH"] = str(HERE.parent / "src")  # for the kernels of the notebooks
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
# Examples speak about privacy, not about the environment they were built in
warnings.filterwarnings("ignore", category=DeprecationWarning)

import tacenda  # noqa: E402

project = "Tacenda"
author = "The Tacenda authors"
project_copyright = "the Tacenda authors, Apache License 2.0"
release = version = tacenda.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "command_reference",
    "settings_reference",
    "mathml",
    "plain_docstrings",
]
exclude_patterns = [
    "_build",
    "_ext",
    "_templates",
    "README.md",
    "gallery/*.ipynb",
    "**.ipynb_checkpoints",
]
templates_path = ["_templates"]
default_role = "code"  # `name` in a docstring
highlight_language = "none"
nitpicky = False

# Markdown
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Notebooks hold no outputs: they run at the build
nb_execution_mode = "auto"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference, from docstrings
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections say the types
autodoc_member_order = "bysource"
autodoc_preserve_defaults = False  # the source does not show what `terms` adds
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
viewcode_line_numbers = True
toc_object_entries_show_parents = "hide"

# The gallery: every file runs, and what it draws is shown
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"[0-9]{2}_.*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", "gallery_style.reset"),
    "doc_module": ("tacenda",),
    "backreferences_dir": "gallery/uses",
    "remove_config_comments": True,
    "min_reported_time": 1,
    "show_memory": False,
    "write_computation_times": False,  # their page would load scripts from elsewhere
    "show_signature": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "plot_gallery": True,
    "image_srcset": ["2x"],
}

html_theme = "pydata_sphinx_theme"
html_title = "Tacenda"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_static" / "scorer.js")  # what answers a question comes first
html_show_search_summary = False  # it would fetch pages, which a browser refuses for local files
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "Tacenda"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
