"""Damage valid files, and run the commands that read them.

    python scripts/reliability/hostile_files.py --out FOLDER [--cases 1000] [--only NUMBER ..]

Checkpoints of several systems, prepared folders and all that is in them, models of Hugging Face, of
fairseq and of the authors, contrastive sets, texts: one file is truncated, its bits are flipped, it
gets the contents of another file, a value in it becomes another one (see mutations.py).
Then a command that reads it runs, in a process of its own with limits of memory and time.

It must refuse, with a line that names the file or its folder, a status that is not 0, and nothing
half-written; or it must succeed, and if it translates have a line for each line. A traceback, a
crash, a hang, a file that was left, or "nan" among the numbers is a fault.

Results are kept as they come: run the same command again to go on after an interruption. They count
for the code that they were made with. The exit status is 1 if there is a fault; the folder of its
case is kept in FOLDER/cases, with ``stdout`` and ``stderr``. ``--only`` repeats cases.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from forked import Ended, Order, run_all
from hostile_commands import COMMANDS, Command, build
from lines import is_boundary
from mutations import mutate
from tables import Column, Row, markdown, records, write
from world import code

COLUMNS = (
    Column("cases", "cases"),
    Column("refused", "refused"),
    Column("same result", "same"),
    Column("another result", "legal"),
    Column("faults", "faults"),
)
TITLES = tuple(dict.fromkeys(command.title for command in COMMANDS))
_STREAMS = ("stdout", "stderr")
_ALWAYS_LEFT = (*_STREAMS, "*.lock", "*.log")
_REFUSAL = re.compile(r"(?:^|: )error: ")
_NO_NUMBER = re.compile(r"\bnan\b", re.IGNORECASE)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to work in")
    whole.add_argument(
        "--cases", type=int, default=1000, metavar="N", help="damaged files (default: %(default)s)"
    )
    whole.add_argument(
        "--only", type=int, nargs="+", metavar="NUMBER", help="repeat these cases, and keep them"
    )
    whole.add_argument("--seed", type=int, default=1, help="of all damage (default: %(default)s)")
    whole.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="cases at the same time, one core each (default: %(default)s)",
    )  # fmt: skip
    whole.add_argument("--json", action="store_true", help="print the sums as JSON")
    whole.add_argument(
        "--write", action="store_true",
        help="put the table into docs/reliability.md, its numbers into docs/reliability.json",
    )  # fmt: skip
    return whole


# ---- one case ------------------------------------------------------------------------------------


class Case:
    """A damaged file and the command that reads it."""

    def __init__(self, place: Path, seed: int, number: int) -> None:
        """Case ``number`` of ``seed``; 0 and below are not damaged, one for each command."""
        self.number = number
        self.command: Command = COMMANDS[number % len(COMMANDS)]
        self.folder = place / "cases" / str(number)
        self._kit = place / "kit"
        self._draw = random.Random(f"{seed} {number}")
        self.subject = Path()
        self.said = "undamaged"

    def order(self) -> Order:
        """Write the files; the command."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for name in dict.fromkeys(self.command.uses):
            source, target = self._kit / name, self.folder / name
            if source.is_dir():
                shutil.copytree(source, target, copy_function=os.link)
            else:
                os.link(source, target)
        if self.number > 0:
            self._damage()
        self._before = {name: _stamp(path) for name, path in _files(self.folder).items()}
        return Order(self.command.words, self.folder)

    def _damage(self) -> None:
        found = {
            path for pattern in self.command.subjects for path in self.folder.glob(pattern)
            if path.is_file()
        }  # fmt: skip
        path = self._draw.choice(sorted(found))
        self.subject = path.relative_to(self.folder)
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
        others = sorted(other for other in self._kit.rglob("*") if other.is_file())
        self.said = mutate(self._draw, path, others)

    def faults(self, ended: Ended) -> list[str]:
        """What is wrong with the end of the command."""
        if ended.hung:
            return [f"it hung for {ended.seconds:.0f} s"]
        if ended.status < 0:
            return [f"killed by signal {-ended.status}"]
        found = []
        if "Traceback (most recent call last)" in ended.stderr + ended.stdout:
            found.append(f"traceback: {ended.said:.200}")
        elif ended.status:
            if not _REFUSAL.search(ended.said):
                found.append(f"no message: {ended.said:.200}")
            elif not any(part in ended.said for part in (self.subject.name, *self.subject.parts)):
                found.append(f"file not named: {ended.said:.200}")
        after = _files(self.folder)
        found += [f"{name} has changed" for name, stamp in self._before.items()
                  if name in after and _stamp(after[name]) != stamp and not self._may_write(name)
                  ]  # fmt: skip
        old = (*self._before, *_ALWAYS_LEFT)
        new = [name for name in after if not _is_one_of(name, old)]
        allowed = self.command.leaves if ended.status else ("*",)
        found += [f"{name} is left" for name in new
                  if not _is_one_of(name, allowed) or Path(name).name.startswith(".")]  # fmt: skip
        if not ended.status:
            if _NO_NUMBER.search(ended.stdout):
                found.append("nan among the numbers")
            found += self._lines()
        return found

    def _may_write(self, name: str) -> bool:
        return _is_one_of(name, self.command.leaves) or name.startswith(self.command.output or "\0")

    def _lines(self) -> list[str]:
        """Whether the output has a line for each line of the source, and the same boundaries."""
        if not self.command.source:
            return []
        if not (self.folder / self.command.output).is_file():
            return ["no output"]
        source, out = (
            (self.folder / name).read_bytes() for name in (self._source(), self.command.output)
        )
        if source.startswith(b"\x1f\x8b"):
            try:
                source = gzip.decompress(source)
            except (OSError, EOFError, zlib.error):
                return ["a damaged gzip file was read"]
        wanted, got = (
            data.decode(errors="replace").removeprefix("\ufeff").split("\n")
            for data in (source, out)
        )
        boundaries = [[is_boundary(line) for line in lines] for lines in (wanted, got)]
        for lines in boundaries:  # the last line may have no line feed
            while lines and lines[-1]:
                lines.pop()
        return [] if boundaries[0] == boundaries[1] else ["lines are lost"]

    def _source(self) -> str:
        words = self.command.words
        return words[words.index("--input") + 1] if "--input" in words else self.command.source

    def result(self, ended: Ended) -> str:
        """What has come out, as far as it is compared: what is printed, and the output."""
        path = self.folder / (self.command.output or "stdout")
        content = path.read_bytes() if path.is_file() else b""
        return repr((ended.status, content if self.command.output else ended.stdout))


def _files(folder: Path) -> dict[str, Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path for path in found}


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


# ---- all of them ---------------------------------------------------------------------------------


def examine(
    place: Path, numbers: Sequence[int], seed: int, jobs: int, *, keep: bool = False
) -> Iterator[Row]:
    """Run cases; yields the record of each as it ends."""
    running: dict[Path, Case] = {}

    def orders() -> Iterator[Order]:
        for number in numbers:
            case = Case(place, seed, number)
            running[case.folder] = case
            yield case.order()

    for order, ended in run_all(orders(), jobs):
        case = running.pop(order.folder)
        row = {
            "number": case.number,
            "title": case.command.title,
            "file": str(case.subject),
            "damage": case.said,
            "status": ended.status,
            "said": ended.said[:300],
            "seconds": round(ended.seconds, 2),
            "faults": case.faults(ended),
            "result": case.result(ended),
        }
        _tell(row, case)
        if not (keep or row["faults"]):
            shutil.rmtree(case.folder)
        yield row


def _tell(row: Row, case: Case) -> None:
    if row["faults"]:
        words = " ".join(case.command.words)
        print(f"{row['number']}: {row['file']}: {row['damage']}: {words}", file=sys.stderr)
    for fault in row["faults"]:
        print(f"  FAULT: {fault}", file=sys.stderr)


def _undamaged(place: Path, seed: int, jobs: int) -> dict[int, str]:
    """The results of all commands on the kit as it is, by their place in the table.

    Raises:
        SystemExit: one of them fails.
    """
    numbers = [number - len(COMMANDS) for number in range(len(COMMANDS))]
    found = {}
    for row in examine(place, numbers, seed, jobs):
        if row["status"] or row["faults"]:
            raise SystemExit(f"case {row['number']} fails without damage: {row['said']}")
        found[row["number"] % len(COMMANDS)] = row["result"]
    return found


def sums(all_records: Sequence[Row], title: str) -> Row:
    """The numbers of the cases of one command."""
    mine = [one for one in all_records if one["title"] == title]
    kinds = [one["kind"] for one in mine]
    counts = {kind: kinds.count(kind) for kind in ("refused", "same", "legal", "faults")}
    return {"case": title, "title": title, "cases": len(mine), **counts}


def run(place: Path, cases: int, seed: int, jobs: int) -> list[Row]:
    """All cases that are not in the log yet; the rows of the table."""
    known = code("hostile_files.py", "hostile_commands.py", "mutations.py", "forked.py")
    log, reference = place / "cases.jsonl", place / "undamaged.json"
    done = {
        one["number"]: one for one in records(log)
        if one["key"] == [known, seed] and one["number"] <= cases
    }  # fmt: skip
    kept = json.loads(reference.read_text("utf-8")) if reference.exists() else {}
    if kept.get("key") != known:
        kept = {"key": known, "results": _undamaged(place, seed, jobs)}
        reference.write_text(json.dumps(kept), "utf-8")
    results = {int(number): result for number, result in kept["results"].items()}
    missing = [number for number in range(1, cases + 1) if number not in done]
    with open(log, "a", encoding="utf-8") as file:
        for row in examine(place, missing, seed, jobs):
            same = row.pop("result") == results[row["number"] % len(COMMANDS)]
            kind = "refused" if row["status"] else "same" if same else "legal"
            row |= {"kind": "faults" if row["faults"] else kind, "key": [known, seed]}
            done[row["number"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
    found = [sums(list(done.values()), title) for title in TITLES]
    return [row for row in found if row["cases"]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything that is asked for; 1 if there is a fault."""
    whole = parser()
    args = whole.parse_args(argv)
    for name in ("cases", "jobs"):
        if getattr(args, name) < 1:
            whole.error(f"`--{name}` must be at least 1, but is {getattr(args, name)}.")
    place = args.out.resolve()
    build(place)
    if args.only:
        rows = list(examine(place, args.only, args.seed, args.jobs, keep=True))
        print(json.dumps(rows, indent=1))
        return int(any(row["faults"] for row in rows))
    rows = run(place, args.cases, args.seed, args.jobs)
    print(json.dumps(rows, indent=1) if args.json else markdown(rows, COLUMNS))
    if args.write:
        write("files", rows, COLUMNS, TITLES)
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
