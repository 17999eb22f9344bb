"""A generated English-German document corpus that cannot be translated line by line.

Four phenomena make a German sentence depend on earlier ones. The nearest sentence with the cue
is 1, 2, 3 or 4 sentences back:

``pronoun`` (cue on the source side)
    `It was heavy.` becomes *Er*, *Sie* or *Es war schwer.*, depending on the gender of the
    thing that was mentioned last. There is no other thing and no other `it` in between.
``ellipsis`` (source side)
    `The boy did too.` becomes *Der Junge lachte auch.* German repeats the verb of the last
    sentence in which somebody did something; the sentences in between only have forms of `be`.
``formality`` (target side only)
    `You are late.` becomes *Du bist* or *Sie sind*; a document keeps to one of the two. Only
    the earlier German sentences show which. (Plural *ihr* is not in the grammar.)
``lexical`` (target side only)
    `The guard was tired.` becomes *Der Wächter* or *Die Wache*, two translations of one
    English word ("words of free choice"); a document keeps to one of the two.

The first `you` and the first word of free choice in a document are chosen at random (half of
the documents have a `you`, most have a word of free choice). All other German sentences follow
from the English document. Sentences are short and regular, with a few differences in word order
(perfect tense, infinitives, subordinate clauses, inversion) and small vocabularies, so that a
small model learns the corpus quickly. Contrastive items are documents of the same grammar that
end with the phenomenon.

Why a sentence-level system cannot beat chance on the contrastive items
----------------------------------------------------------------------
Items come in pairs of twins. Twins have the same last source sentence S and the same two
candidates X and Y for it. X is right in one twin, Y in the other, because their contexts have
different cues and are otherwise the same. A system that sees no other sentence gives the score
f(S, X) to X and f(S, Y) to Y in *both* twins. It prefers the same candidate twice and is
therefore right exactly once: its accuracy is exactly 50%, whatever f depends on (frequency,
length or any other prior). If the scores are tied, they are tied in both twins: the accuracy is
still 50% if a tie counts as one half, and lower if it counts as an error. A system that chooses
at random has an expected accuracy of 50%. The same argument holds for a system that sees the
whole *source* document and is tested on ``formality`` or ``lexical``, because the source
documents of these twins are identical.
"""
