"""The record of finished steps that makes a long preparation resumable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from gtrans.identity.digests import digest
from gtrans.identity.files import atomic_writer
from gtrans.messages import say


def check_steps(steps: Any, known: re.Pattern[str]) -> None:
    """Refuse steps, as :class:`StepRecord` saves them, that it has not written.

    Args:
        steps: by name; from a file, so it may be anything.
        known: the names that a step can have.

    Raises:
        ValueError: saying what is wrong.
    """
    if not isinstance(steps, dict):
        raise ValueError("the finished steps have no names")
    for name, step in steps.items():
        if not known.fullmatch(name):
            raise ValueError(f"there is no step '{name}'")
        if not isinstance(step, dict) or not isinstance(step.get("fingerprint"), str):
            raise ValueError(f"the step '{name}' has no fingerprint")
        outputs, digests = step.get("outputs"), step.get("digests", {})
        if not isinstance(outputs, dict) or not isinstance(digests, dict):
            raise ValueError(f"the step '{name}' does not say what it wrote")
        for output, size in outputs.items():
            path = PurePosixPath(output)
            if path.is_absolute() or ".." in path.parts or type(size) is not int:
                raise ValueError(f"the step '{name}' cannot have written '{output}'")
        if not digests.keys() <= outputs.keys() or not all(
            isinstance(one, str) for one in digests.values()
        ):
            raise ValueError(f"the step '{name}' has digests of other files")


class StepRecord:
    """The finished steps of a folder, saved in one JSON file of that folder.

    Args:
        folder: the folder to which the steps write.
        file_name: name of the JSON file.
        header: further entries of the JSON file.
        last: the step that depends on all others. It is forgotten as soon as another step is
            repeated, so the folder is complete if it is in the record.
        finished: the record of an earlier run: by step name, the fingerprint and the outputs
            (sizes in bytes, and digests, by file name inside the folder). See :func:`check_steps`.
        suspended: the same of steps that are finished if their fingerprint is still the same;
            until they are asked for, the folder is not complete.
    """

    def __init__(
        self,
        folder: Path,
        file_name: str,
        header: dict[str, Any],
        last: str,
        finished: dict[str, dict[str, Any]],
        suspended: dict[str, dict[str, Any]],
    ) -> None:
        self._folder = folder
        self._file_name = file_name
        self._header = header
        self._last = last
        self._finished = finished
        self._suspended = suspended

    def suspend(self) -> None:
        """Let the folder be incomplete until the last step is asked for; for a new header."""
        if self._last in self._finished:
            self._suspended[self._last] = self._finished.pop(self._last)

    def save(self) -> None:
        """Write the JSON file."""
        with atomic_writer(self._folder / self._file_name) as file:
            steps = {"finished": self._finished}
            if self._suspended:
                steps["suspended"] = self._suspended
            json.dump({**self._header, **steps}, file, indent=2)
            file.write("\n")

    def forget(self, names: Iterable[str]) -> None:
        """Take steps out of the record and delete their outputs."""
        for name in names:
            record = self._finished.pop(name, None) or self._suspended.pop(name, None)
            if record is None:
                continue
            self.save()
            for output in record["outputs"]:
                path = self._folder / output
                # The record could have been edited: nothing outside the folder is touched.
                if path.resolve().is_relative_to(self._folder.resolve()):
                    path.unlink(missing_ok=True)

    def step(
        self, name: str, fingerprint: str, outputs: Sequence[str], work: Callable[[], None]
    ) -> None:
        """Run a step unless the record says that it is finished.

        Args:
            name: name of the step.
            fingerprint: digest of everything that the outputs depend on.
            outputs: names of the files that the step writes.
            work: runs the step.
        """
        record = self._finished.get(name) or self._suspended.get(name)
        changed = record is not None and record["fingerprint"] != fingerprint
        if record is not None and not changed and self._intact(record["outputs"]):
            say(f"{name}: finished earlier, skipped")
            if self._suspended.pop(name, None) is not None:
                self._finished[name] = record
                self.save()
            return
        say(f"{name}: {'input or option changed, repeated' if changed else 'started'}")
        self.forget([self._last, name])
        work()
        sizes = {output: (self._folder / output).stat().st_size for output in outputs}
        digests = {output: digest(self._folder / output) for output in outputs}
        self._finished[name] = {"fingerprint": fingerprint, "outputs": sizes, "digests": digests}
        self.save()

    def _intact(self, outputs: dict[str, int]) -> bool:
        paths = {self._folder / name: size for name, size in outputs.items()}
        return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())
