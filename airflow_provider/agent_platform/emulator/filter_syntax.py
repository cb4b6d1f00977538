"""The syntax that the filters of job lists and of log queries share.

In: the text of a filter. Out: a small tree of frozen nodes. This module does not know any field: what
``state`` or ``severity`` mean is said in ``filters`` and ``log_filters``.

Both languages follow Google's filter standard (AIP-160): ``OR`` binds tighter than ``AND``, two conditions
side by side are joined by AND, ``NOT`` and ``-`` negate. Keywords are upper case. Strings stand in double
or single quotes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from airflow_provider.agent_platform.emulator.errors import invalid_argument

MAX_LENGTH = 20_000
"""Longest filter in characters, the documented limit of a log query."""
MAX_DEPTH = 50
"""Deepest nesting of a filter: evaluation is recursive, a hostile filter must not be."""

GRAMMAR = r"""
start: expression?

?expression: sequence (_AND sequence)*
?sequence: factor+
?factor: term (_OR term)*
?term: (_NOT | _MINUS) simple -> negation
     | simple
?simple: restriction
       | "(" expression ")"

restriction: field COMPARATOR operand
           | field               -> bare_field
           | QUOTED              -> bare_text
           | FUNCTION            -> call

field: NAME ("." (NAME | QUOTED))*

?operand: VALUE
        | QUOTED
        | "(" alternatives ")"
alternatives: operand (_OR operand)*

_AND.3: /AND(?![\w.\-:=<>!])/
_OR.3: /OR(?![\w.\-:=<>!])/
_NOT.3: /NOT(?![\w.\-:=<>!])/
_MINUS.3: "-"
COMPARATOR.2: "<=" | ">=" | "!=" | "=~" | "!~" | "<" | ">" | "=" | ":"
FUNCTION.2: /(?!(AND|OR|NOT)\()[A-Za-z_]\w*(?=\()/
QUOTED.2: /"(\\.|[^"\\])*"/s | /'(\\.|[^'\\])*'/s
NAME: /(?!(AND|OR|NOT)(?![\w\-\/.]))[A-Za-z_0-9][\w\-\/]*/
VALUE: /(?!(AND|OR|NOT)(?![\w\-\/.]))[^\s()"'<>=!,]+/

COMMENT.4: /--[^\n]*/
%ignore /\s+/
%ignore COMMENT
"""


@dataclass(frozen=True)
class And:
    """Every part holds."""

    parts: tuple[Node, ...]
    depth: int


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Node, ...]
    depth: int


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Node
    depth: int


@dataclass(frozen=True)
class Restriction:
    """``field comparator value``; several values are alternatives: ``severity = (ERROR OR CRITICAL)``."""

    field: tuple[str, ...]
    comparator: str
    values: tuple[str, ...]
    quoted: bool
    depth: int = 1

    @property
    def path(self) -> str:
        """The field as it was written, with dots."""
        return ".".join(self.field)


@dataclass(frozen=True)
class Text:
    """A value without a field: a search in everything, where a language has one."""

    value: str
    depth: int = 1


Node: TypeAlias = And | Or | Not | Restriction | Text

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def unquote(token: str) -> str:
    """The string a quoted token stands for; ``\\"`` is unescaped, an unknown escape is kept whole."""
    body, out, index = token[1:-1], [], 0
    while index < len(body):
        char = body[index]
        if char != "\\" or index + 1 == len(body):
            out.append(char)
            index += 1
            continue
        following = body[index + 1]
        if following in "\"'\\":
            out.append(following)
        elif following in _ESCAPES:
            out.append(_ESCAPES[following])
        else:
            # Regular expressions are quoted too: \d must survive.
            out.append(char + following)
        index += 2
    return "".join(out)


def _nest(*children: Node) -> int:
    depth = 1 + max(child.depth for child in children)
    if depth > MAX_DEPTH:
        raise invalid_argument(f"Invalid filter: more than {MAX_DEPTH} levels of nesting.")
    return depth


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Builds nodes while the parser reduces, bottom up, so that no recursion depends on the input."""

    def start(self, expression: Node | None = None) -> Node | None:
        return expression

    def expression(self, *parts: Node) -> Node:
        flat = tuple(leaf for part in parts for leaf in (part.parts if isinstance(part, And) else (part,)))
        return And(flat, _nest(*flat))

    sequence = expression

    def factor(self, *parts: Node) -> Node:
        return Or(parts, _nest(*parts))

    def negation(self, part: Node) -> Node:
        return Not(part, _nest(part))

    def field(self, *names: Token) -> tuple[str, ...]:
        return tuple(unquote(name) if name.type == "QUOTED" else str(name) for name in names)

    def alternatives(self, *operands: tuple[Token, ...] | Token) -> tuple[Token, ...]:
        flat: list[Token] = []
        for operand in operands:
            if isinstance(operand, tuple):
                flat.extend(operand)
            else:
                flat.append(operand)
        return tuple(flat)

    def restriction(
        self, field: tuple[str, ...], comparator: Token, operand: tuple[Token, ...] | Token
    ) -> Node:
        tokens = operand if isinstance(operand, tuple) else (operand,)
        values = tuple(unquote(token) if token.type == "QUOTED" else str(token) for token in tokens)
        return Restriction(field, str(comparator), values, all(token.type == "QUOTED" for token in tokens))

    def bare_field(self, field: tuple[str, ...]) -> Node:
        return Text(".".join(field))

    def call(self, token: Token) -> Node:
        raise invalid_argument(f"Invalid filter: the function {token}() is not supported.")

    def bare_text(self, token: Token) -> Node:
        return Text(unquote(token))


@functools.lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=_Builder())


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Node | None:
    """Parse a filter.

    :param text: the filter; blank means everything.
    :return: the tree, ``None`` for a blank filter.
    :raises ApiError: INVALID_ARGUMENT, naming the place and what was expected there.
    """
    if len(text) > MAX_LENGTH:
        raise invalid_argument(f"Invalid filter: {len(text)} characters, at most {MAX_LENGTH} are allowed.")
    try:
        return _parser().parse(text)  # type: ignore[return-value]  # the transformer replaces the tree
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        raise invalid_argument(_explain(text, error)) from None


def _explain(text: str, error: UnexpectedInput) -> str:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return f"Invalid filter: the expression ends too early: {_excerpt(text, len(text))!r}."
    position = error.pos_in_stream
    return f"Invalid filter: unexpected text at position {position}: {_excerpt(text, position)!r}."


def _excerpt(text: str, position: int | None) -> str:
    position = position or 0
    return text[max(0, position - 20) : position + 20]
