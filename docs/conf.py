"""The documentation as a site, with the reference of the Python package: see docs/python.md.

Pages are written for GitHub. Here their links into the source code become addresses of the repository, and the tables of README.md become
the navigation.
"""

import re
import shutil
from pathlib import Path

from sphinx.util import logging

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
FOLDERS = {"Protocols": "conformance/*.md", "Developers": "decisions/0*.md"}
"""Pages of folders, by the heading of README.md to which they belong."""
SOURCE = "https://github.com/earmark/earmark/blob/main"

project = "Earmark"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "Earmark"
myst_heading_anchors = 4
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
python_maximum_signature_line_length = 100
nitpicky = True
# Types of other libraries, and aliases, have no page here.
nitpick_ignore_regex = [("py:.*", r"(?!earmark\.).*")]
suppress_warnings = ["misc.highlighting_failure"]  # Examples of files have comments and gaps.


def setup(app):
    app.connect("source-read", prepare)
    app.connect("build-finished", add_index)


def add_index(app, error):
    """Servers show index.html for a directory."""
    if error is None and app.builder.format == "html":
        shutil.copy(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def prepare(app, name, source):
    page = DOCS / f"{name}.md"
    source[0] = re.sub(r"\]\(([^)\s#]+)(#[^)\s]*)?\)", lambda link: link_of(page, link), source[0])
    if name == root_doc:
        source[0] += navigation(source[0])


def link_of(page, link):
    """Returns a link to a page of this site unchanged, and one into the repository as an address."""
    target = (page.parent / link[1]).resolve()
    if re.match(r"[a-z]+:", link[1]) or target.is_relative_to(DOCS) and target.is_file():
        return link[0]
    if not target.exists() or not target.is_relative_to(REPOSITORY):
        logging.getLogger(__name__).warning("%s: link to %s, which does not exist", page, link[1])
        return link[0]
    return f"]({SOURCE}/{target.relative_to(REPOSITORY)}{link[2] or ''})"


def navigation(text):
    """Returns the hidden tables of contents: each page once, under the first heading that links to it."""
    found, parts = {root_doc}, []
    for section in text.split("\n## ")[1:]:
        caption, _, body = section.partition("\n")
        pages = [link for link in re.findall(r"\]\(([\w/.-]+)\.md[)#]", body) if ".." not in link]
        listed = DOCS.glob(FOLDERS.get(caption, "none"))
        pages += sorted(str(page.relative_to(DOCS).with_suffix("")) for page in listed)
        new = [page for page in dict.fromkeys(pages) if page not in found]
        found.update(new)
        parts.append(
            "\n".join(["", "```{toctree}", f":caption: {caption}", ":hidden:", "", *new, "```", ""])
        )
    return "\n".join(parts)
