"""Configuration of the documentation; build it with `make docs`."""

import os
import re
import subprocess
import sys
from pathlib import Path

from docutils import nodes

import decouply

project = "decouply"
author = "The decouply developers"
copyright = f"2026, {author}"  # noqa: A001 (Sphinx wants this name)
release = decouply.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
# Tables that commands write lie beside their numbers; other pages include them.
_here = Path(__file__).parent
_tables = [path.with_suffix(".md").relative_to(_here).as_posix() for path in _here.glob("*/*.json")]
exclude_patterns = ["_build", "speed/*.md", *_tables]


def own_figures(block, block_vars, gallery_conf):  # noqa: ARG001 (Sphinx-Gallery gives all three)
    """Show figures of the package, which pyplot does not know, where a page calls them `figure`."""
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    figure = block_vars["example_globals"].get("figure")
    if not isinstance(figure, Figure) or hasattr(figure, "number") or getattr(figure, "shown", False):
        return ""
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=100)
    figure.shown = True
    return figure_rst([path], gallery_conf["src_dir"])


def pages_to_run():
    """A pattern for the gallery: pages on public data are shown without being run where these cannot be had.

    Set DECOUPLY_DATA to a folder that holds them where there is no network.
    """
    missing = []
    data = {
        "plot_silverbox": decouply.data.silverbox,
        "plot_two_tanks": decouply.data.cascaded_tanks,
        "plot_engine_map": decouply.data.b777_engine,
        "plot_mnist": decouply.data.mnist,
    }
    for page, load in data.items():
        try:
            load()
        except (decouply.DataError, decouply.MissingExtraError) as error:
            print(f"{page} is not run: {error}")
            missing.append(page)
    return rf"{re.escape(os.sep)}(?!{'|'.join(missing) or '$'})plot_"


suppress_warnings = ["config.cache"]  # a function in the configuration is not kept between builds
sphinx_gallery_conf = {
    "image_scrapers": ("matplotlib", own_figures),
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "subsection_order": [f"../examples/gallery/{subject}" for subject in ("tables", "exact", "dynamics", "networks")],
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "filename_pattern": pages_to_run(),
    "download_all_examples": False,
    "ignore_repr_types": r"Picture|Text",  # `own_figures` shows pictures; notebooks show what a cell ends with
    "show_signature": False,
    "min_reported_time": 10**6,
    "write_computation_times": False,  # a page whose table loads scripts from a network
}
html_theme = "pydata_sphinx_theme"
html_title = "decouply"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_theme_options = {
    "pygments_dark_style": "github-dark",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 5,
    "navigation_depth": 3,
}
html_context = {"default_mode": "auto"}  # dark where the reader's system is
numpydoc_show_class_members = False
autodoc_typehints = "none"
autosummary_generate = True


def executed_notebooks(app):
    """Notebooks to download, with their outputs: the tutorials that are quick to run."""
    here = Path(app.srcdir)
    tool = here.parent / "tools" / "notebooks.py"
    for page in ("start/first-fit.md", "start/function.md", "gallery/tables/plot_a_tutorial.ipynb"):
        source = here / page
        subprocess.run([sys.executable, tool, source, source.with_suffix(".ipynb")], check=True)


def command_line_reference(app):
    """The help of every command, as a page."""
    import click

    from decouply.cli._main import decouply as group

    context = click.Context(group, info_name="decouply", terminal_width=100)
    parts = ["# Command line", "[The command line](../how-to/command-line.md) shows how to use it."]
    for name in ["", *group.list_commands(context)]:
        command = group.get_command(context, name) if name else group
        of_command = click.Context(command, info_name=f"decouply {name}".strip(), terminal_width=100)
        parts += [f"## decouply {name}".rstrip(), f"```text\n{command.get_help(of_command)}\n```"]
    (Path(app.srcdir) / "reference" / "command-line.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


_MANY_COLUMNS = 7  # more than these, with deviations in one line, are wider than a page


def mark_tables_of_words(app, doctree, docname):  # noqa: ARG001 (Sphinx gives all three)
    """Rows of tables with sentences stand below each other on a narrow screen; tables of numbers scroll, unbroken."""
    for table in doctree.findall(nodes.table):
        entries = [entry.astext() for entry in table.findall(nodes.entry)]
        letters, digits = (sum(map(kind, "".join(entries))) for kind in (str.isalpha, str.isdigit))
        if letters > 15 * len(entries) and letters > 10 * digits and "autosummary" not in table["classes"]:
            table["classes"].append("words")
            continue
        # A number stays with its unit, and with its deviation if there is room; a deviation is never broken.
        before = "±|" if len(list(table.findall(nodes.colspec))) < _MANY_COLUMNS else ""
        for text in list(table.findall(nodes.Text)):
            unbroken = re.sub(rf"(?<=\d) (?={before}%|s\b|ms\b)|(?<=±) (?=\d)", "\N{NO-BREAK SPACE}", text)
            text.parent.replace(text, nodes.Text(unbroken))


def setup(app):
    """Notebooks are made after the gallery was built."""
    app.connect("builder-inited", command_line_reference)
    app.connect("builder-inited", executed_notebooks, priority=900)
    app.connect("doctree-resolved", mark_tables_of_words)
