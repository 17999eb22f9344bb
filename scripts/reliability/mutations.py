"""Ways in which a file can be damaged, or be another one than it says.

Bytes of any file; lines of texts; values of JSON files and of checkpoints. Everything follows from
a ``random.Random``. No code is ever put into a checkpoint.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints import read_checkpoint

Draw = random.Random
_TREES = (".json", ".jsonl", ".partial")
_TEXTS = (*_TREES, ".en", ".de", ".txt", ".yaml", ".bpe", ".merges", ".tsv", ".src", ".trg")
_WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**9, 10**30, 1.5, 1e400, float("nan"), "", "word", "\ud800", "\x1b[31m"),
    *([], {}, [[]], {"a": {}}, [None], "x" * 100_000, "0", "../..", "<s>"),
)
_WORDS = (b"", b"-1", b"9" * 30, b"word", b"1e999", b"\xe2\x80\xa8", b"<s>", b"@@", b"nan")
_PATTERN = 97  # of a block of bytes that means nothing


# ---- bytes ---------------------------------------------------------------------------------------


def _place(draw: Draw, data: bytes) -> tuple[int, int]:
    begin = draw.randrange(len(data) + 1)
    return begin, min(len(data), begin + draw.choice((1, 2, 8, 100, 5000)))


def _truncated(draw: Draw, data: bytes) -> bytes:
    return data[: draw.choice((draw.randrange(len(data) + 1), len(data) - 1, len(data) - 9))]


def _flipped(draw: Draw, data: bytes) -> bytes:
    found = bytearray(data)
    end = draw.choice((len(found), min(len(found), 64)))  # often in the head
    for _ in range(draw.choice((1, 1, 5, 50)) if end else 0):
        found[draw.randrange(end)] ^= 1 << draw.randrange(8)
    return bytes(found)


def _zeroed(draw: Draw, data: bytes) -> bytes:
    begin, end = _place(draw, data)
    return data[:begin] + bytes(end - begin) + data[end:]


def _inserted(draw: Draw, data: bytes) -> bytes:
    begin, end = _place(draw, data)
    return data[:begin] + draw.randbytes(end - begin) + data[begin:]


def _deleted(draw: Draw, data: bytes) -> bytes:
    begin, end = _place(draw, data)
    return data[:begin] + data[end:]


def _overwritten(draw: Draw, data: bytes) -> bytes:
    begin, end = _place(draw, data)
    return data[:begin] + bytes([_PATTERN]) * (end - begin) + data[end:]


_BYTES: dict[str, Callable[[Draw, bytes], bytes]] = {
    "truncated": _truncated,
    "bits flipped": _flipped,
    "zeroed": _zeroed,
    "bytes inserted": _inserted,
    "bytes deleted": _deleted,
    "overwritten": _overwritten,
    "emptied": lambda draw, data: b"",
    "doubled": lambda draw, data: data + data,
    "random": lambda draw, data: draw.randbytes(len(data)),
    "longer": lambda draw, data: data + draw.randbytes(draw.choice((1, 40))),
}


# ---- lines ---------------------------------------------------------------------------------------


def _lines(draw: Draw, data: bytes) -> tuple[str, bytes]:
    lines = data.split(b"\n")
    one, other = (draw.randrange(len(lines)) for _ in range(2))
    what = draw.choice(("lost", "doubled", "swapped", "replaced", "not UTF-8", "NUL", "long"))
    if what == "lost":
        del lines[one]
    elif what == "doubled":
        lines.insert(one, lines[one])
    elif what == "swapped":
        lines[one], lines[other] = lines[other], lines[one]
    elif what == "replaced":
        words = lines[one].split(b" ")
        words[draw.randrange(len(words))] = draw.choice(_WORDS)
        lines[one] = b" ".join(words)
    else:
        lines[one] += {"not UTF-8": b"\xff\xfe", "NUL": b"\0", "long": b"ab " * 30_000}[what]
    return f"line {one + 1} {what}", b"\n".join(lines)


# ---- values --------------------------------------------------------------------------------------

_Slot = tuple[Any, Any]  # a dictionary or list, and a key of it


def _slots(tree: Any) -> Iterator[_Slot]:
    """The places of all values."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _slots(tree[key])


def _replaced(draw: Draw, tree: Any, wrong: Sequence[Any]) -> str:
    """Replace or remove a value somewhere, places near the root as often as those far from it."""
    groups: dict[Any, list[_Slot]] = {}
    for slot in _slots(tree):
        groups.setdefault(id(slot[0]), []).append(slot)
    if not groups:
        return "nothing"
    inside, key = draw.choice(draw.choice(list(groups.values())))
    if draw.random() < 0.25:
        del inside[key]
        return f"{key!r:.60} removed"
    inside[key] = draw.choice(wrong)
    return f"{key!r:.60} is {inside[key]!r:.40}"


def _json(draw: Draw, data: bytes) -> tuple[str, bytes]:
    lines = data.decode().split("\n")
    number = draw.randrange(len(lines)) if data.startswith(b"{") and len(lines) > 1 else None
    try:
        tree = json.loads(data)
        number = None
    except ValueError:  # a value in each line
        number = draw.choice([n for n, line in enumerate(lines) if line])
        tree = json.loads(lines[number])
    what = draw.random()
    if what < 0.1:
        text, said = json.dumps(draw.choice(_WRONG)), "another value"
    elif what < 0.2:
        text, said = draw.choice(
            (("[" * 100_000, "too deep"), ("9" * 5000, "a number of 5000 digits"),
             (json.dumps(tree) * 2, "two values"), ('{"a": 1, "a": 2}', "a key twice"))
        )  # fmt: skip
    else:
        said = _replaced(draw, tree, _WRONG)
        text = json.dumps(tree)
    if number is None:
        return said, text.encode()
    lines[number] = text
    return f"line {number + 1}: {said}", "\n".join(lines).encode()


def _wrong_tensors(draw: Draw, tensor: Tensor) -> Any:
    """Something that is no parameter of this shape."""
    real = tensor.is_floating_point()
    found = [
        torch.full_like(tensor, float("nan")) if real else tensor + 10**6,
        torch.full_like(tensor, float("inf")) if real else -tensor - 1,
        tensor[:0], tensor.flatten(), tensor.unsqueeze(0), torch.zeros(()), tensor.tolist(),
        tensor.to(torch.complex64), tensor.to(torch.int32), tensor.double(), tensor.half(),
        tensor.to_sparse(), tensor.bool(),
        torch.zeros(1).expand(10**9), torch.empty(tensor.shape, device="meta"),
    ]  # fmt: skip
    return draw.choice(found)


def _checkpoint(draw: Draw, path: Path) -> str:
    state = read_checkpoint(path)
    what = draw.random()
    if what < 0.35:
        weights = state["model"]
        name = draw.choice(sorted(weights))
        weights[name] = draw.choice((_wrong_tensors(draw, weights[name]), draw.choice(_WRONG[:20])))
        said = f"{name} is another value"
    elif what < 0.4:
        state, said = draw.choice(_WRONG), "another value"
    else:
        groups = [key for key in ("cfg", "task_state", "extra_state", "args") if state.get(key)]
        tree = state if what < 0.55 or not groups else state[draw.choice(groups)]
        said = _replaced(draw, tree, (*_WRONG[:20], torch.zeros(2)))
    torch.save(state, path)
    return said


# ---- any file ------------------------------------------------------------------------------------


def mutate(draw: Draw, path: Path, others: Sequence[Path]) -> str:
    """Change a file in place; returns in words what was done.

    Args:
        draw: decides about everything.
        path: the file; nothing else has its inode.
        others: files whose contents it may get.
    """
    before = path.read_bytes()
    for _ in range(20):
        said = _mutate(draw, path, before, others)
        if path.read_bytes() != before:
            return said
        path.write_bytes(before)
    path.write_bytes(b"")
    return "emptied"


def _mutate(draw: Draw, path: Path, before: bytes, others: Sequence[Path]) -> str:
    what = draw.random()
    if path.suffix == ".pt" and what < 0.6:
        return _checkpoint(draw, path)
    if path.suffix in _TREES and what < 0.6:
        said, data = _json(draw, before)
    elif path.suffix in _TEXTS and what < 0.6:
        said, data = _lines(draw, before)
    elif what > 0.92:
        other = draw.choice([one for one in others if one.name != path.name])
        said, data = f"the contents of {other.name}", other.read_bytes()
    else:
        said = draw.choice(list(_BYTES))
        data = _BYTES[said](draw, before)
    path.write_bytes(data)
    return said
