"""The site: the pages of docs as they are, and the reference of the installed package from its docstrings.

`nox -s site` builds it, with the extra "docs", but without a network or a device.
"""

from __future__ import annotations

import inspect
import re
from operator import attrgetter
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import vyre_cuda as vc

project = "vyre_cuda"
version = release = vc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"vyre_cuda {release}"
html_copy_source = False
html_show_copyright = False

myst_heading_anchors = 6
default_role = "code"
# Devices, kernels and builders have their methods from several classes.
autodoc_default_options = {"members": True, "inherited-members": "BaseException, object"}
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]  # a name that several classes have, such as shape, is no reference


class Api(SphinxDirective):
    """The public names in its content, each with what its docstring says."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        lines = ["```{eval-rst}"]
        for name in " ".join(self.content).split():
            kind = "autoclass" if inspect.isclass(attrgetter(name)(vc)) else "autofunction"
            lines.append(f".. {kind}:: vyre_cuda.{name}")
        return self.parse_text_to_nodes("\n".join([*lines, "```"]))


def _escape(app: Sphinx, what: str, name: str, value: object, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with code between backticks: bars, stars and underscores stand for themselves."""
    for number, line in enumerate(lines):
        parts = re.split(r"(``.*?``|`[^`]*`)", line)
        parts[::2] = [re.sub(r"([|*]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
        lines[number] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("api", Api)
    app.connect("autodoc-process-docstring", _escape, priority=900)
    return {"parallel_read_safe": True}
