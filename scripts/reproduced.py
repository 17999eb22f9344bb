"""Copy finished results of `gtrans reproduce` to docs/reproduced, with an index of them.

    gtrans reproduce 000-T6 003-T5.3 --scale tiny --out experiments
    python scripts/reproduced.py experiments/tiny

Of every table and figure that is finished in the folder of a scale, all files are copied: text,
JSON, CSV, pictures. Where only some rows are finished (`gtrans reproduce --rows`), NAME.so-far is
copied. Results that are in docs/reproduced and not in the folder stay. Where a text names the
folder of the scale, its copy says ``OUT/SCALE``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer, copy_file

HERE = Path(__file__).resolve().parent.parent
RESULT = re.compile(r"(\d{3}-[TF][\d.]*\d)(\.so-far)?\.json")
SO_FAR = ".so-far"
_TEXTS = (".md", ".json", ".csv", ".html")


def copy(source: Path, target: Path) -> list[str]:
    """Copy all results from one folder to the other; returns their names."""
    names = _results(source)
    if not names:
        raise GtransError(f"{source}: there is no result, such as 000-T6.json, in this folder.")
    # Rows of a result that is there as a whole are not wanted.
    whole = {path.stem for path in target.glob("*.json")}
    names = [name for name in names if name.removesuffix(SO_FAR) not in whole - {name}]
    files = [file for name in names for file in _files(source, name)]
    for file in files:  # before the first is copied
        if not (source / file).is_file():
            raise GtransError(f"{source / file}: there is no such file; make the result again.")
    for file in files:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        _copy(source / file, target / file, source.resolve())
    for name in names:
        if not name.endswith(SO_FAR):
            for file in target.glob(f"{name}{SO_FAR}.*"):
                file.unlink()
    return names


def _copy(path: Path, to: Path, folder: Path) -> None:
    """Copy a file of ``folder``, the folder of a scale, without saying where that is."""
    if path.suffix not in _TEXTS:
        copy_file(path, to)
        return
    text = path.read_text(encoding="utf-8").replace(str(folder), f"OUT/{folder.name}")
    with atomic_writer(to) as file:
        file.write(text)


def _results(folder: Path) -> list[str]:
    """The results of a folder; of one that is finished not also what there was of it before."""
    found = {path.stem for path in folder.glob("*.json") if RESULT.fullmatch(path.name)}
    return sorted(name for name in found if name.removesuffix(SO_FAR) not in found - {name})


def _files(source: Path, name: str) -> list[Path]:
    """All files of a result, below the folder; of a page in a folder of its own, that whole."""
    found = [Path(f"{name}.{ending}") for ending in ("md", "json", "csv")]
    for word in json.loads((source / f"{name}.json").read_text(encoding="utf-8"))["made"]:
        made = Path(word)
        found.append(made)
        if made.parent.name:
            inside = sorted((source / made.parts[0]).rglob("*"))
            found += [path.relative_to(source) for path in inside if path.is_file()]
    return list(dict.fromkeys(found))


def index(target: Path) -> str:
    """A line for every result in a folder."""
    lines = [
        "# Reproduced tables and figures",
        "",
        "Written by `python scripts/reproduced.py` from finished runs of `gtrans reproduce`",
        "(`docs/reproducing.md`). Each has its numbers beside the paper's, as text, JSON and CSV.",
        "",
    ]
    for name in _results(target):
        table = json.loads((target / f"{name}.json").read_text(encoding="utf-8"))
        some = "; some of its rows" if name.endswith(SO_FAR) else ""
        lines.append(
            f"- [{table['experiment']}]({name}.md): {table['title']} (scale {table['scale']}{some})"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Copy, and write the index."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="folder of a scale in --out")
    parser.add_argument("--into", type=Path, default=HERE / "docs" / "reproduced")
    args = parser.parse_args()
    try:
        names = copy(args.results, args.into)
        with atomic_writer(args.into / "README.md") as file:
            file.write(index(args.into))
    except GtransError as error:
        print(f"reproduced: error: {error}", file=sys.stderr)
        return 1
    print(f"{args.into}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
