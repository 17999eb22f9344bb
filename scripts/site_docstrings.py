"""Shows this project's docstrings to mkdocstrings as Markdown (``mkdocs.yml`` names this file)."""

from typing import Any

import griffe

from gtrans.options.docstrings import as_markdown


class Markdown(griffe.Extension):
    """Rewrites every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
