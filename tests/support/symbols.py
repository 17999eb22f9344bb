"""The least a model may be built for; fairseq is imported when it is made."""

from __future__ import annotations


class Symbols:
    """What the models need of a task."""

    def __init__(self) -> None:
        from fairseq.data import Dictionary

        self.source_dictionary = self.target_dictionary = Dictionary()
        for number in range(20):
            self.source_dictionary.add_symbol(str(number))
