"""Tiny models of the classes that publish translation models, with real tokenizer files.

The weights are random. The subwords are SentencePiece models (for fairseq BPE codes) of the
synthetic corpus. Ends of sentences are made likely, so that every search ends by itself.
"""

from __future__ import annotations

import io
import json
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from subword_nmt.apply_bpe import BPE
from torch import Tensor

from support.pretrained_models import shaken
from support.synthetic_corpus import write_corpus

DIM, FFN, LAYERS, HEADS = 32, 48, 2, 4
LANGUAGES = {"opus-tags": ["deu", "fra"], "m2m100": ["de", "en", "fr"],
             "nllb": ["deu_Latn", "eng_Latn", "fra_Latn"]}  # fmt: skip
KINDS = ("opus", "opus-tags", "opus-separate", "m2m100", "nllb")
BEAM, LONGEST = 4, 12


def corpus_of(folder: Path) -> Path:
    """The synthetic corpus, and its SentencePiece models: of both languages and of each."""
    import sentencepiece

    write_corpus(folder)
    for name, files, size in (
        ("joint", "train.en,train.de", 240), ("en", "train.en", 160), ("de", "train.de", 180)
    ):  # fmt: skip
        sentencepiece.SentencePieceTrainer.train(
            input=",".join(str(folder / file) for file in files.split(",")),
            model_prefix=str(folder / name), vocab_size=size, hard_vocab_limit=False,
            model_type="bpe" if name == "joint" else "unigram", minloglevel=2,
        )  # fmt: skip
    return folder


def subwords_of(model: Path) -> list[str]:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


@dataclass
class Published:
    """A model of the real class, its tokenizer and the folder that both were saved to.

    Attributes:
        languages: source and target as the model names them.
        tag: what stands before a source text.
        first: the token that every translation begins with.
    """

    model: Any
    tokenizer: Any
    folder: Path
    languages: tuple[str, str] = ("en", "de")
    tag: str = ""
    first: str = ""

    @torch.no_grad()
    def translate(self, sentences: Sequence[str]) -> list[str]:
        """By the class's own search; neither special tokens nor languages are written."""
        tokenizer, never = self.tokenizer, self.never
        forced = {}
        if self.first:
            forced["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(self.first)
        found = []
        for sentence in sentences:
            rows = tokenizer([f"{self.tag}{sentence}"], return_tensors="pt")
            written = self.model.generate(
                **rows, **forced, num_beams=BEAM, early_stopping=True, length_penalty=1.0,
                min_new_tokens=1 + len(forced), max_new_tokens=LONGEST + 5, do_sample=False,
                suppress_tokens=never, logits_processor=[self._end],
            )  # fmt: skip
            text = tokenizer.batch_decode(written, skip_special_tokens=True)[0]
            found.append(text.removeprefix(self.first).strip())
        return found

    def _end(self, written: Tensor, scores: Tensor) -> Tensor:
        """Nothing but the end follows the longest translation, as in a search of fairseq's.

        The language that a translation begins with is not written again.
        """
        if self.first and written.size(1) > 1:
            scores[:, self.tokenizer.convert_tokens_to_ids(self.first)] = float("-inf")
        if written.size(1) < 1 + bool(self.first) + LONGEST:
            return scores
        end = self.tokenizer.eos_token_id
        last = torch.full_like(scores, float("-inf"))
        last[:, end] = scores[:, end]
        return last

    @property
    def never(self) -> list[int]:
        """The rows of special tokens and of other languages, which no translation has."""
        entries = self.tokenizer.convert_ids_to_tokens(range(self.rows))
        special = ("<s>", "<pad>", "<unk>", "<mask>", *(f">>{x}<<" for x in LANGUAGES["opus-tags"]))
        known = {*special} - {self.first}
        count = len(self.tokenizer.get_vocab())
        return [row for row, entry in enumerate(entries) if entry in known and row < count]

    @property
    def target_rows(self) -> dict[str, int]:
        """The row of each token of the output."""
        tokenizer = self.tokenizer
        separate = getattr(tokenizer, "separate_vocabs", False)
        found: dict[str, int] = tokenizer.target_encoder if separate else tokenizer.get_vocab()
        return found

    @property
    def rows(self) -> int:
        """The number of entries of the output."""
        return int(self.model.get_output_embeddings().weight.size(0))

    @torch.no_grad()
    def logits(self, sentence: str, translation: str) -> tuple[list[str], Tensor]:
        """The entries of a translation and the logits of each next one, ``(length, rows)``."""
        tokenizer = self.tokenizer
        source = tokenizer([f"{self.tag}{sentence}"], return_tensors="pt")
        target = tokenizer(text_target=[translation], return_tensors="pt")["input_ids"]
        start = torch.full((1, 1), self.model.config.decoder_start_token_id)
        previous = torch.cat([start, target[:, :-1]], 1)
        found: Tensor = self.model(**source, decoder_input_ids=previous).logits[0]
        return tokenizer.convert_ids_to_tokens(target[0]), found


def published(kind: str, corpus: Path, folder: Path) -> Published:
    """A model of one of :data:`KINDS` in a new folder, as it is published."""
    folder.mkdir(parents=True, exist_ok=True)
    made = _opus if kind.startswith("opus") else _multilingual
    found = made(kind, corpus, folder)
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\ntags:\n- translation\n---\n# It\n")
    return found


def _opus(kind: str, corpus: Path, folder: Path) -> Published:
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    words = [subwords_of(corpus / f"{lang}.model") for lang in ("en", "de")]
    tags = [f">>{lang}<<" for lang in LANGUAGES.get(kind, ())]
    separate = kind == "opus-separate"
    joint = list(dict.fromkeys([*words[0], *words[1]]))
    names = ["vocab.json", "target_vocab.json"] if separate else ["vocab.json"]
    sizes = []
    for name, of_side in zip(names, words if separate else [joint], strict=True):
        entries = ["</s>", "<unk>", *tags, *of_side, "<pad>"]
        sizes.append(len(entries))
        text = json.dumps({entry: row for row, entry in enumerate(entries)}, ensure_ascii=False)
        (folder / name).write_text(text, encoding="utf-8")
    for lang, name in (("en", "source.spm"), ("de", "target.spm")):
        (folder / name).write_bytes((corpus / f"{lang}.model").read_bytes())
    tokenizer = MarianTokenizer(
        str(folder / "source.spm"), str(folder / "target.spm"), str(folder / "vocab.json"),
        str(folder / "target_vocab.json") if separate else None, separate_vocabs=separate,
        source_lang="en", target_lang="de",
    )  # fmt: skip
    pad = sizes[0] - 1
    config = MarianConfig(
        vocab_size=sizes[0], decoder_vocab_size=sizes[-1], d_model=DIM, encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_ffn_dim=FFN, decoder_ffn_dim=FFN,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, activation_function="swish",
        scale_embedding=True, pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad,
        share_encoder_decoder_embeddings=not separate, max_position_embeddings=128,
        bad_words_ids=[[pad]], forced_eos_token_id=0,
    )  # fmt: skip
    model: Any = shaken(MarianMTModel(config))
    with torch.no_grad():
        for table in {model.get_input_embeddings(), model.model.decoder.embed_tokens}:
            table.weight.mul_(2)
            # As in models that were converted from Marian.
            table.weight[min(pad, table.num_embeddings - 1)] = 0
        model.final_logits_bias.normal_()
        model.final_logits_bias[0, 0] = 4.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder).eval()  # with positions that are not shaken
    return Published(model, tokenizer, folder, tag=tags[0] if tags else "")


def _multilingual(kind: str, corpus: Path, folder: Path) -> Published:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    (folder / "sentencepiece.bpe.model").write_bytes((corpus / "joint.model").read_bytes())
    subwords = subwords_of(corpus / "joint.model")
    entries = ["<s>", "<pad>", "</s>", "<unk>", *subwords]
    languages = ("en", "de") if kind == "m2m100" else ("eng_Latn", "deu_Latn")
    if kind == "m2m100":
        tokenizer: Any = _m2m100_tokenizer(folder, entries)
        rows = len(entries) + 100 + 8
    else:
        tokenizer = _nllb_tokenizer(folder, entries)
        rows = len(entries) + len(LANGUAGES[kind]) + 1 + 2
    config = M2M100Config(
        vocab_size=rows, d_model=DIM, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, scale_embedding=True, max_position_embeddings=128,
        encoder_layerdrop=0.0, decoder_layerdrop=0.0,
    )  # fmt: skip
    model: Any = shaken(M2M100ForConditionalGeneration(config))
    with torch.no_grad():
        bias = model.model.decoder.layer_norm.bias.normal_()
        table = model.get_input_embeddings().weight.mul_(2)
        table[2] += 4 * bias / bias.square().sum()
        # Languages and rows without a token are not written, as in a model that was trained.
        table[len(entries) :] -= 20 * bias / bias.square().sum()
    model.save_pretrained(folder)
    model = M2M100ForConditionalGeneration.from_pretrained(folder).eval()
    first = {"m2m100": "__de__", "nllb": "deu_Latn"}[kind]
    return Published(model, tokenizer, folder, languages, first=first)


def _m2m100_tokenizer(folder: Path, entries: list[str]) -> Any:
    from transformers import M2M100Tokenizer

    # Rows are in another order than SentencePiece's.
    mixed = [*entries[:4], *reversed(entries[4:])]
    (folder / "vocab.json").write_text(json.dumps({s: row for row, s in enumerate(mixed)}))
    return M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"),
        src_lang="en", tgt_lang="de",
    )  # fmt: skip


def _nllb_tokenizer(folder: Path, entries: list[str]) -> Any:
    from tokenizers.models import BPE
    from transformers import NllbTokenizer
    from transformers.convert_slow_tokenizer import SentencePieceExtractor

    found = SentencePieceExtractor(str(folder / "sentencepiece.bpe.model")).extract(BPE)
    known = [*entries, *LANGUAGES["nllb"], "<mask>"]
    tokenizer = NllbTokenizer(
        {entry: row for row, entry in enumerate(known)}, found["merges"],
        _spm_precompiled_charsmap=found["_spm_precompiled_charsmap"],
        additional_special_tokens=LANGUAGES["nllb"], src_lang="eng_Latn", tgt_lang="deu_Latn",
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return NllbTokenizer.from_pretrained(folder, src_lang="eng_Latn", tgt_lang="deu_Latn")


def fairseq_transformer(corpus: Path, folder: Path, joined: bool = True) -> tuple[Any, Path]:
    """A stock Transformer as of WMT 2019, with codes with counts of fastBPE.

    ``joined``: one dictionary; else the target's lacks ten subwords of the source's.
    """
    from fairseq.models.transformer import TransformerModel, transformer_wmt_en_de_big
    from sacremoses import MosesTokenizer
    from subword_nmt.learn_bpe import learn_bpe

    folder.mkdir(parents=True, exist_ok=True)
    words = Counter[str]()
    for lang in ("en", "de"):
        tokenizer = MosesTokenizer(lang)
        for line in (corpus / f"train.{lang}").read_text("utf-8").splitlines()[:1500]:
            words.update(tokenizer.tokenize(line, aggressive_dash_splits=True))
    learnt = io.StringIO()
    learn_bpe(io.StringIO("".join(f"{w} {n}\n" for w, n in words.items())), learnt, 150,
              is_dict=True)  # fmt: skip
    merges = learnt.getvalue().splitlines()[1:]
    (folder / "bpecodes").write_text("".join(f"{merge} {9999 - n}\n" for n, merge in
                                             enumerate(merges)), "utf-8")  # fmt: skip
    bpe = BPE(io.StringIO("\n".join(["#version: 0.2", *merges, ""])))
    dictionary = Dictionary()
    for word in words:
        for subword in bpe.segment_tokens([word]):
            dictionary.add_symbol(subword)
    dictionary.save(str(folder / "dict.en.txt"))
    target = dictionary
    if not joined:
        target = Dictionary()
        for subword in dictionary.symbols[target.nspecial + 10 :]:
            target.add_symbol(subword)
    target.save(str(folder / "dict.de.txt"))
    args = Namespace(
        arch="transformer_wmt_en_de_big", task="translation", source_lang="en", target_lang="de",
        encoder_embed_dim=DIM, encoder_ffn_embed_dim=FFN, encoder_layers=LAYERS,
        encoder_attention_heads=HEADS, decoder_layers=LAYERS, decoder_attention_heads=HEADS,
        decoder_embed_dim=DIM, decoder_ffn_embed_dim=FFN, share_all_embeddings=joined,
        share_decoder_input_output_embed=True,
        max_source_positions=1024, max_target_positions=1024, data="/somewhere/else",
    )  # fmt: skip
    transformer_wmt_en_de_big(args)
    task: Any = Namespace(source_dictionary=dictionary, target_dictionary=target)
    model = shaken(TransformerModel.build_model(args, task))
    with torch.no_grad():
        bias = model.decoder.layers[-1].final_layer_norm.bias.normal_()
        model.decoder.embed_tokens.weight.mul_(2)[2] += 4 * bias / bias.square().sum()
    torch.save({"args": args, "model": model.state_dict()}, folder / "model1.pt")
    return model, folder / "model1.pt"
