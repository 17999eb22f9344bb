"""Kill commands of the project at random moments, and compare what they come to in the end.

    python scripts/reliability/kills.py --out FOLDER [--kills 200] [--cases NAME ..]

Every case is a command as a user types it, on a small corpus and with tiny models, on the CPU. It
runs once without interruption. Then, trial by trial, it is started in an empty folder, killed with
SIGKILL (most of the time at a moment of its life, else while it writes a file: a checkpoint, if it
trains), started again, killed again, up to three times, until it ends by itself. Its files must
then be those of the uninterrupted run: byte by byte, checkpoints by all that they hold except
times. No child process may outlive a kill by more than ten seconds. Life is measured in seconds of
computation, so that other work on the machine matters little.

Results are kept as they come: run the same command again to go on after an interruption. They count
for the code that they were made with. The exit status is 1 if anything differs; what differs is
kept in FOLDER/trials. Needs Linux (/proc).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cases import CASES, Case
from filelock import FileLock, Timeout
from processes import PROC
from tables import Column, Row, markdown, write
from trials import Cancelled, TrialError, Workplace

COLUMNS = (
    Column("kills", "kills"),
    Column("while it wrote", "while_writing"),
    Column("trials", "trials"),
    Column("identical", "identical"),
    Column("children left", "orphans"),
    Column("files left", "left_over"),
)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    killed = [name for name, case in CASES.items() if case.weight]
    whole = argparse.ArgumentParser(
        description=__doc__, epilog=f"cases: {', '.join(killed)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    whole.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to work in")
    whole.add_argument(
        "--kills", type=int, default=200, metavar="N",
        help="kills of all cases together (default: %(default)s)",
    )  # fmt: skip
    whole.add_argument(
        "--cases", nargs="+", choices=killed, default=killed, metavar="NAME",
        help="what is killed (default: all, see below)",
    )  # fmt: skip
    whole.add_argument("--seed", type=int, default=1, help="of all moments (default: %(default)s)")
    whole.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="cases at the same time, one core each (default: %(default)s)",
    )  # fmt: skip
    whole.add_argument("--json", action="store_true", help="print the sums as JSON")
    whole.add_argument(
        "--write", action="store_true",
        help="put the table into docs/reliability.md, its numbers into docs/reliability.json; "
        "rows of other cases stay",
    )  # fmt: skip
    return whole


def shares(kills: int, cases: Sequence[Case]) -> dict[str, int]:
    """How many kills each case gets, by weight; together exactly ``kills``."""
    total, given, weights, found = sum(case.weight for case in cases), 0, 0, {}
    for case in cases:
        weights += case.weight
        found[case.name] = kills * weights // total - given
        given += found[case.name]
    return found


def row(case: Case, records: Sequence[Mapping[str, Any]]) -> Row:
    """The sums of a case.

    ``kills`` and, of them, ``while_writing``: with a file open for writing that the case aims at;
    ``trials``, of which ``identical`` have come to the files of an uninterrupted run;
    ``orphans``: kills that a child process has survived; ``left_over``: trials with files at the
    end for which an uninterrupted run has none.
    """
    kills = [kill for record in records for kill in record["kills"]]
    return {
        "case": case.name,
        "title": case.title,
        "kills": len(kills),
        "while_writing": sum(kill["hit"] for kill in kills),
        "trials": len(records),
        "identical": sum(not record["differences"] for record in records),
        "orphans": sum(bool(kill["orphans"]) for kill in kills),
        "left_over": sum(bool(record["left_over"]) for record in records),
    }


def faultless(rows: Sequence[Row]) -> bool:
    """Whether all trials have come to the right files and no child has outlived a command."""
    return all(one["identical"] == one["trials"] and not one["orphans"] for one in rows)


def examine(place: Workplace, case: Case, kills: int) -> Row:
    """Run trials of a case until it has been killed often enough; its sums.

    Raises:
        TrialError: its uninterrupted run failed.
    """
    expected = place.expect(case)
    records = place.trials(case)
    while (left := kills - sum(len(one["kills"]) for one in records)) > 0:
        # The last command was never caught at its writing, which may be too short for that.
        missed = bool(records) and not records[-1]["kills"]
        records.append(place.trial(case, expected, len(records) + 1, left, not missed))
        _tell(place, case, records[-1])
    return row(case, records)


def _tell(place: Workplace, case: Case, record: dict[str, Any]) -> None:
    moments = ", ".join(
        f"{kill['seconds']:.1f} s{' writing ' + ' '.join(kill['writing']) if kill['hit'] else ''}"
        for kill in record["kills"]
    )
    print(f"{case.name} {record['trial']}: killed at {moments or 'no moment'}", file=sys.stderr)
    if problems := record["differences"]:
        where = place.out / "trials" / f"{case.name}.{record['trial']}"
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        print(f"  DIFFERS: {problems[0]}{more} ({where})", file=sys.stderr)
    for kill in record["kills"]:
        for command in kill["orphans"]:
            print(f"  STILL RUNS after the kill: {command}", file=sys.stderr)


def run(place: Workplace, kills: int, cases: Sequence[Case], jobs: int) -> tuple[list[Row], bool]:
    """All cases; the sums of those that could run, and whether all of them could."""
    cases = [case for case in cases if _available(place, case)]
    for case in cases:  # these build on each other, so that they come before everything else
        _attempt(place, case)
    goals = shares(kills, cases) if cases else {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(_examined, place, case, goals[case.name]) for case in cases]
        try:
            found = [future.result() for future in futures]
        except BaseException:
            place.cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise
    rows = [one for one in found if one is not None]
    return rows, len(rows) == len(cases)


def _available(place: Workplace, case: Case) -> bool:
    there = place.available(case)
    if not there:
        print(f"{case.name}: skipped, `{' '.join(case.needs)}` fails", file=sys.stderr)
    return there


def _attempt(place: Workplace, case: Case) -> None:
    """The uninterrupted run, if it succeeds; `_examined` reports a failure."""
    with contextlib.suppress(TrialError):
        print(f"{case.name}: {place.expect(case).seconds:.1f} s", file=sys.stderr)


def _examined(place: Workplace, case: Case, kills: int) -> Row | None:
    try:
        return examine(place, case, kills)
    except TrialError as error:
        print(error, file=sys.stderr)
    except Cancelled:
        pass
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything that is asked for; 1 if anything differs."""
    logging.disable(logging.INFO)  # fairseq's, when it is imported
    whole = parser()
    args = whole.parse_args(argv)
    for name in ("kills", "jobs"):
        if getattr(args, name) < 1:
            whole.error(f"`--{name}` must be at least 1, but is {getattr(args, name)}.")
    if not (PROC / "self" / "environ").exists():
        whole.error("this system has no /proc, from which processes are watched; use Linux.")
    chosen = [CASES[name] for name in dict.fromkeys(args.cases)]
    place = Workplace(args.out, CASES, args.seed)
    try:
        with FileLock(place.out / "lock", blocking=False):
            rows, complete = run(place, args.kills, chosen, args.jobs)
    except Timeout:
        whole.error(f"`--out {args.out}` is in use by another run.")
    print(json.dumps(rows, indent=1) if args.json else markdown(rows, COLUMNS))
    if args.write:
        write("kills", rows, COLUMNS, list(CASES))
    return 0 if complete and faultless(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
