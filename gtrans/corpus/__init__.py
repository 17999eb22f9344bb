"""A generated English-German document corpus that cannot be translated line by line.

Four phenomena make a German sentence depend on earlier ones. The nearest sentence with
the cue stands 1, 2, 3 or 4 sentences back:

``pronoun`` (cue on the source side)
    `It was heavy.` becomes *Er*, *Sie* or *Es war schwer.*, after the gender of the thing
    mentioned last. No other thing, and no other `it`, stands between.
``ellipsis`` (source side)
    `The boy did too.` becomes *Der Junge lachte auch.* German repeats the verb, that of
    the last sentence that tells what somebody did; between stand only forms of `be`.
``formality`` (target side only)
    `You are late.` becomes *Du bist* or *Sie sind*; a document keeps to one of the two.
    English does not tell which: only the German sentences before do. (Plural *ihr* is
    not part of the grammar.)
``lexical`` (target side only)
    `The guard was tired.` becomes *Der Wächter* or *Die Wache*; a document keeps to one
    of the two, and the English word is the same.

The first `you` and the first word of free choice of a document are a coin toss (half of
the documents have the one, most have the other); apart from these the German sentence
follows from the English document. Sentences are short and regular, with a few
differences in word order (perfect tense, infinitives, subordinate clauses, inversion)
and small vocabularies, so
that a small model learns the corpus quickly. Contrastive items are documents of the same
grammar that end where the phenomenon stands.

Why a sentence-level system cannot beat chance on the contrastive items
----------------------------------------------------------------------
Items come in pairs of twins. Twins have the same last source sentence S and the same two
candidates X and Y for it; X is right in one, Y in the other, because another cue stands
in the context, where nothing else differs. A system that sees no other sentence gives the
score f(S, X) to X and f(S, Y) to Y in *both* twins. It prefers the same candidate twice
and is therefore right exactly once: its accuracy is exactly 50%, whatever f is, frequency
of a word, length or a prior of any other kind. If f ties, it ties in both twins: counted
as half each, the accuracy is still exactly 50%; counted as errors, it is less. A system
that chooses at random has an expected accuracy of 50%. The same argument holds for a
system that sees all of the *source* document and is tested on ``formality`` or
``lexical``: the source documents of such twins are equal to the letter.
"""
