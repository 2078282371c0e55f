"""Configuration of the documentation; build it with `make docs`."""

import decoupling

project = "decoupling"
author = "The decoupling developers"
copyright = f"2026, {author}"  # noqa: A001 (Sphinx wants this name)
release = decoupling.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "table1/*", "recovery/*", "silverbox/*", "sg_execution_times.rst"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 10**6,
}
html_theme = "pydata_sphinx_theme"
html_title = "decoupling"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_sidebars = {"**": []}
numpydoc_show_class_members = False
autodoc_typehints = "none"
autosummary_generate = True
