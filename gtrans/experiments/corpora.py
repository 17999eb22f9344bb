"""The text that experiments are run on, which is given or made here.

``OUT/SCALE/corpora/NAME`` is a corpus that is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.experiments.jobs import Job, Jobs
from gtrans.experiments.recipes import text_file, text_prefixes
from gtrans.experiments.scales import ScaleSettings, filled


@dataclass(frozen=True)
class Corpus:
    """Text of a pair of languages, or of several pairs that have one language in common.

    Attributes:
        name: of it, and of its folder.
        folder: with {train,dev|valid,test}.LANG; of several pairs {train,..}.PAIR.LANG, where PAIR
            is such as de-en.
        source, target: the languages; empty with ``langs``.
        prefixes: of training, validation and test text.
        job: what makes it; empty: it is given.
        langs: of a corpus that one model translates in all directions, the language of every pair,
            then all others; empty: it is translated from ``source`` to ``target``.
    """

    name: str
    folder: Path
    source: str
    target: str
    prefixes: tuple[str, str, str]
    job: str
    langs: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All files."""
        if not self.langs:
            return tuple(
                text_file(p, lang) for p in self.prefixes for lang in (self.source, self.target)
            )
        middle, *others = self.langs
        found = []
        for prefix in self.prefixes:
            for other in others:
                for lang in (other, middle):
                    # The text of two languages may be that of a corpus of one pair.
                    file = text_file(prefix, lang)
                    of_pair = text_file(prefix, f"{other}-{middle}.{lang}")
                    is_single = len(others) == 1 and Path(file).is_file()
                    found.append(file if is_single else of_pair)
        return tuple(found)

    @property
    def test(self) -> tuple[str, str]:
        """Source and reference of the test documents, from ``source`` to ``target``."""
        return text_file(self.prefixes[2], self.source), text_file(self.prefixes[2], self.target)

    @property
    def directions(self) -> tuple[str, ...]:
        """From and to the language of every pair, in the order of run-multilingual.sh."""
        pairs = [(self.langs[0], other) for other in self.langs[1:]]
        return tuple(it for one, two in pairs for it in (f"{one}-{two}", f"{two}-{one}"))


class Corpora:
    """Finds corpora, and collects the jobs that make them.

    Args:
        folder: of the scale, in OUT.
        scale: its settings.
        jobs: where they are collected.
        data: the folder of corpora that are given.
    """

    def __init__(self, folder: Path, scale: ScaleSettings, jobs: Jobs, data: Path | None) -> None:
        self._folder, self._scale, self._jobs, self._data = folder, scale, jobs, data

    def find(self, name: str, all_directions: bool = False) -> Corpus:
        """A corpus, which is made or given.

        Args:
            name: of it.
            all_directions: it is for models that translate in all directions; one of two languages
                has both.

        Raises:
            GtransError: it is not there, or its languages are not clear.
        """
        if all_directions and self._data is not None and name not in self._scale.corpora:
            folder = self._data.resolve() / name
            langs = self._several(folder)
            if langs:
                return self._of_pairs(name, folder, langs)
        corpus = self._of_one_pair(name)
        if not all_directions:
            return corpus
        return replace(corpus, source="", target="", langs=(corpus.source, corpus.target))

    def _of_one_pair(self, name: str) -> Corpus:
        if name in self._scale.corpora:
            options = filled(self._scale.corpora[name], self._scale.settings)
            command = ["make-corpus", *options, "--out", str(self._folder / "corpora" / name)]
            return self._made(name, command, "valid")
        if self._data is None:
            raise GtransError(f"`--data` is missing: the folder that holds {name}/.")
        folder = self._data.resolve() / name
        if name in self._scale.assembled and not folder.is_dir():
            out = str(self._folder / "corpora")
            command = ["get-corpus", name, "--from", str(self._data.resolve()), "--out", out]
            return self._made(name, command, "dev")
        if not folder.is_dir():
            raise GtransError(
                f"{folder}: there is no such folder (`--data`, `--corpus`); `gtrans get-corpus` "
                f"makes those of the papers."
            )
        source, target = self._scale.languages.get(name) or self._pair(folder)
        return Corpus(name, folder, source, target, text_prefixes(folder, source, target), "")

    @staticmethod
    def _several(folder: Path) -> tuple[str, ...]:
        """The language that all pairs of a folder have in common, and the others."""
        names = sorted({it.name.removesuffix(".gz") for it in folder.glob("train.*-*.*")})
        pairs = [parts[1].split("-") for name in names if len(parts := name.split(".")) == 3]
        commons = dict.fromkeys(pair[-1] for pair in pairs)
        if len(commons) > 1:
            raise GtransError(
                f"{folder}: its pairs of languages have no language in common that stands last in "
                f"the names, but {', '.join(commons)}; it needs files such as train.de-en.de."
            )
        return (*commons, *dict.fromkeys(pair[0] for pair in pairs))

    @staticmethod
    def _of_pairs(name: str, folder: Path, langs: tuple[str, ...]) -> Corpus:
        middle, *others = langs
        # All texts are there.
        prefixes = [
            text_prefixes(folder, f"{it}-{middle}.{it}", f"{it}-{middle}.{middle}") for it in others
        ]
        return Corpus(name, folder, "", "", prefixes[0], "", langs)

    def _made(self, name: str, command: Sequence[str], valid: str) -> Corpus:
        """A corpus that a command of ``gtrans`` makes; ``valid``: what it calls that split."""
        (source, target), folder = self._scale.pair, self._folder / "corpora" / name
        train, dev, test = (str(folder / split) for split in ("train", valid, "test"))
        made = [f"{prefix}.{lang}" for prefix in (train, dev, test) for lang in (source, target)]
        job = Job(
            f"corpora/{name}.made", ("gtrans", *command), (*made, str(folder / "corpus.json"))
        )
        self._jobs.add(job)
        return Corpus(name, folder, source, target, (train, dev, test), job.name)

    def _pair(self, folder: Path) -> tuple[str, str]:
        """Source and target of a corpus that is known by its files only."""
        names = [path.name.removesuffix(".gz") for path in folder.glob("train.*")]
        found = sorted({name.removeprefix("train.") for name in names})
        if len(found) != 2 or any("." in lang for lang in found):
            raise GtransError(
                f"{folder}: its languages are not clear; it needs train.LANG of two languages, and "
                f"has {', '.join(sorted(names)) or 'none'}."
            )
        source = self._scale.pair[0] if self._scale.pair[0] in found else found[0]
        return source, next(lang for lang in found if lang != source)
