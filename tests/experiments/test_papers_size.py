"""The project's own experiments that are for a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.empty_corpus import corpus_in

from gtrans.experiments.catalogue import find, read_catalogue
from gtrans.experiments.plan import plan
from gtrans.experiments.planned import Wish
from gtrans.experiments.scales import read_scale

OUT = Path("/out")


@pytest.mark.parametrize(
    ("name", "corpus", "languages"),
    [("results-english-german", "all-ende", "en-de"), ("results-subtitles", "tvsub", "zh-en")],
)
def test_the_main_systems_are_had_at_the_papers_size(
    name: str, corpus: str, languages: str, tmp_path: Path
) -> None:
    """On a GPU, from a corpus that is given or put together, with batches that fill it."""
    corpus_in(tmp_path, corpus, *languages.split("-"))
    (chosen,) = find(read_catalogue(), [name])
    scale = read_scale("paper", ["batch-tokens=3000", "first-updates=7", "further-warmup=5"])
    jobs, (table,) = plan([chosen], Wish(scale, OUT, tmp_path, (), (1,)))
    assert [row.why_not for row in table.rows] == [""] * len(chosen.variants)
    source, target = languages.split("-")
    for job in jobs.jobs:
        words = " ".join(job.argv)
        stage = job.argv[job.argv.index("--stage") + 1] if "--stage" in job.argv else ""
        if stage:
            assert f"--source-lang {source} --target-lang {target}" in words
        if stage in ("sentence", "document"):
            assert job.gpu and "--max-tokens 3000 --update-freq 2 --sentence-updates 7" in words
            assert ("--warmup-updates 5" in words) == (stage == "document")
        if stage == "translate" or job.argv[:2] == ("gtrans", "translate"):
            assert job.gpu and words.endswith("--max-tokens 16000")
            assert "--max-tokens 3000" not in words or "-- translate: " in words
        assert "--cpu" not in words and "--gpus 0" not in words
    assert any("jieba" in job.argv for job in jobs.jobs) == (source == "zh")
    # Without a GPU the same rows stand at scale small, with the same languages.
    small = Wish(read_scale("small"), OUT, tmp_path, (), (1,))
    jobs, _ = plan([chosen], small)
    assert f"--source-lang {source}" in " ".join(jobs.jobs[0].argv)
