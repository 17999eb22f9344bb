"""Lets markdown-it say where inline markup stands, which it says of blocks only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline


def remember_places(parser: MarkdownIt) -> None:
    """Let every inline token have ``meta["raw"]``, as it is written in the source.

    That of the end of a link is its address or reference, from the bracket on. Every token that
    holds inline markup has ``meta["environment"]``, the definitions of references.
    """
    for rule in parser.inline.ruler.__rules__:
        parser.inline.ruler.at(rule.name, _remembering(rule.name, rule.fn), {"alt": rule.alt})
    parser.core.ruler.after("inline", "environment", _remember_environment)


def _remembering(name: str, rule: Any) -> Any:
    def remembering(state: StateInline, silent: bool) -> bool:
        begin, known = state.pos, len(state.tokens)
        label = -1
        if name == "link" and not silent and state.src[begin] == "[":
            label = state.md.helpers.parseLinkLabel(state, begin, True)
        if not rule(state, silent):
            return False
        if silent:
            return True
        for token in state.tokens[known:]:
            if token.type == "text" or "raw" in token.meta:
                continue
            raw = state.src[begin : state.pos]
            if token.type == "link_close" and label >= 0:
                raw = state.src[label : state.pos]
                if raw in ("]", "][]"):
                    raw = f"][{' '.join(state.src[begin + 1 : label].split())}]"
            token.meta["raw"] = raw
        return True

    return remembering


def _remember_environment(state: Any) -> None:
    for token in state.tokens:
        if token.type == "inline":
            token.meta["environment"] = state.env
