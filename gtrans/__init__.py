"""gtrans: document-level machine translation as a fairseq plugin.

``from gtrans import Translator`` translates documents from Python:
``Translator.load("model.pt").translate(documents)``.

Importing it imports neither torch nor fairseq, so that ``gtrans score`` starts at once.
"""

from typing import TYPE_CHECKING, Any

from gtrans.version import __version__

if TYPE_CHECKING:
    from gtrans.translating.translator import Translator

__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Translator":  # it imports torch
        from gtrans.environment import logging_as_it_is

        with logging_as_it_is():
            from gtrans.translating.translator import Translator

        return Translator
    raise AttributeError(f"module 'gtrans' has no attribute '{name}'")
