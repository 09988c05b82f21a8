r"""Regular expressions that pick topics and transactional ids, in RE2's syntax, matched in time linear in the name.

A client's expression runs in the broker, so its time must be bounded: Python's own matcher backtracks, and thirty
characters can make it take years. As in RE2 there is no backtracking and no syntax that needs it (back references,
look-around). An expression becomes a set of states and every character moves all of them at once. A dict remembers the
next set for a set and a character, so a character usually costs one lookup. The dict is bounded, and so is the work for
sets that it does not have: an expression that needs more is refused. All work can be done in steps of a few
milliseconds (`compile_in_steps`, `match_in_steps`).

    .  [a-z]  [^a-z]  [[:alpha:]]  \d \D \w \W \s \S  \pL \p{Lu} \PL  \.  \x41 \x{41}  \Q...\E
    x*  x+  x?  x{2}  x{2,}  x{2,4}, each with ? after it     xy  x|y
    (x)  (?:x)  (?P<name>x)  (?<name>x)  (?i)  (?i:x)  ^  $  \A  \z  \b  \B

It has to match the whole name, as in Kafka.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Generator
from typing import NamedTuple, Self

from penstock.core.steps import finish
from penstock.protocol.errors import ApiError, ErrorCode

_MAX_REPEAT = 1_000  # RE2's limit
# Kafka has no limit but that of a string, 32,767 bytes; people do not write such an expression by hand.
_MAX_EXPRESSION_LENGTH = 4_096
# The number of nodes of an expression of that length without repetitions, and more. To build these takes some 6 ms, in
# one step.
_MAX_STATES = 5_000
_MAX_DEPTH = 100  # of groups within groups: the parser calls itself once or twice for each
_UNBOUNDED = -1
# Literal characters, unless a repetition follows.
_PLAIN = frozenset(string.ascii_letters + string.digits + "_-,:;<>=!@#%&~/ '\"")
_REPETITIONS = frozenset("*+?{")
# The memory of one expression, in states and transitions: a few megabytes at the very most.
_MAX_REMEMBERED = 50_000
# The states visited for steps that were not remembered, by all names together: some 200 ms, in steps. A usual
# expression needs a few thousand; `(a|b)*a(a|b){500}` would need millions.
_MAX_VISITS = 500_000

Predicate = Callable[[str], bool]


class _Node(NamedTuple):
    """kind: "character", "sequence", "choice", "repeat", "assertion" or "nothing"."""

    kind: str
    parts: tuple[_Node, ...] = ()
    predicate: Predicate | None = None
    low: int = 0
    high: int = 0
    assertion: str = ""


_NOTHING = _Node("nothing")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_PERL: dict[str, Predicate] = {
    "d": lambda character: "0" <= character <= "9",
    "w": lambda character: character == "_" or (character.isascii() and character.isalnum()),
    "s": lambda character: character in " \t\n\r\f",
}
_POSIX: dict[str, Predicate] = {
    "alpha": lambda character: character.isascii() and character.isalpha(),
    "digit": _PERL["d"],
    "alnum": lambda character: character.isascii() and character.isalnum(),
    "lower": lambda character: "a" <= character <= "z",
    "upper": lambda character: "A" <= character <= "Z",
    "punct": lambda character: "!" <= character <= "~" and not character.isalnum(),
    "word": _PERL["w"],
    "xdigit": lambda character: character in "0123456789abcdefABCDEF",
}


def _refuse(expression: str, why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"`{expression}` is not a valid regular expression: {why}.",
    )


class _Parser:
    def __init__(self, expression: str) -> None:
        self.text = expression
        self.position = 0
        self.ignores_case = False
        self.depth = 0

    def error(self, why: str) -> ApiError:
        return _refuse(self.text, why)

    def parse(self) -> _Node:
        node = self.choice()
        if self.position < len(self.text):
            raise self.error("unexpected )")
        return node

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.position += len(text)
            return True
        return False

    def next(self) -> str:
        if self.position >= len(self.text):
            raise self.error("it ends too early")
        self.position += 1
        return self.text[self.position - 1]

    def until(self, end: str) -> str:
        found = self.text.find(end, self.position)
        if found < 0:
            raise self.error(f"missing {end}")
        taken = self.text[self.position : found]
        self.position = found + len(end)
        return taken

    # ------------------------------------------------------------------------------------- structure

    def choice(self) -> _Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.error("its groups are nested too deeply")
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        self.depth -= 1
        return branches[0] if len(branches) == 1 else _Node("choice", tuple(branches))

    def sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.position < len(self.text) and not self.peek("|") and not self.peek(")"):
            character = self.text[self.position]
            if character in _PLAIN and self.text[self.position + 1 : self.position + 2] not in _REPETITIONS:
                self.position += 1
                parts.append(self.literal(character))
            elif self.take("\\Q"):
                found = self.text.find("\\E", self.position)
                literal = self.text[self.position :] if found < 0 else self.until("\\E")
                self.position = len(self.text) if found < 0 else self.position
                parts += [self.literal(character) for character in literal]
            else:
                parts.append(self.repeated(self.atom()))
        return _Node("sequence", tuple(parts))

    def repeated(self, node: _Node) -> _Node:
        count = 0
        while (bounds := self.bounds()) is not None:
            if node is _NOTHING:
                raise self.error("missing argument to repetition operator")
            count += 1
            if count > 1:
                raise self.error("invalid nested repetition operator")
            self.take("?")  # the choice of the match does not change whether there is one
            node = _Node("repeat", (node,), low=bounds[0], high=bounds[1])
        return node

    def bounds(self) -> tuple[int, int] | None:
        for sign, bounds in (("*", (0, _UNBOUNDED)), ("+", (1, _UNBOUNDED)), ("?", (0, 1))):
            if self.take(sign):
                return bounds
        if not self.peek("{"):
            return None
        end = self.text.find("}", self.position)
        low, comma, high = self.text[self.position + 1 : max(end, 0)].partition(",")
        if end < 0 or not _is_number(low) or (high and not _is_number(high)):
            return None  # not a repetition: the brace is literal
        self.position = end + 1
        bounds = int(low), (int(high) if high else _UNBOUNDED) if comma else int(low)
        if max(bounds) > _MAX_REPEAT or _UNBOUNDED < bounds[1] < bounds[0]:
            raise self.error("invalid repetition count")
        return bounds

    def atom(self) -> _Node:
        character = self.next()
        if character == "(":
            return self.group()
        if character == "[":
            return _Node("character", predicate=self.set())
        if character == ".":
            return _Node("character", predicate=lambda each: each != "\n")
        if character in "^$":
            return _Node("assertion", assertion=character)
        if character in "*+?":
            raise self.error(f"missing argument to repetition operator: {character}")
        return self.escape() if character == "\\" else self.literal(character)

    def group(self) -> _Node:
        ignored_case = self.ignores_case
        if self.take("?"):
            if self.take("P<") or (self.peek("<") and not self.peek("<=") and not self.peek("<!") and self.take("<")):
                name = self.until(">")
                if not name.isidentifier():
                    raise self.error("invalid named capture")
            elif self.flags():
                return _NOTHING  # `(?i)` holds to the end of its group
        node = self.choice()
        if not self.take(")"):
            raise self.error("missing )")
        self.ignores_case = ignored_case
        return node

    def flags(self) -> bool:
        """Whether the group ends after them."""
        value = True
        while (flag := self.next()) not in ":)":
            if flag == "-" and value:
                value = False
            elif flag == "i":
                self.ignores_case = value
            elif flag not in "msU":
                raise self.error("invalid or unsupported Perl syntax")
        return flag == ")"

    # ------------------------------------------------------------------------------------- characters

    def literal(self, character: str) -> _Node:
        return _Node("character", predicate=self.any_case(lambda each: each == character))

    def any_case(self, predicate: Predicate) -> Predicate:
        if not self.ignores_case:
            return predicate
        return lambda each: predicate(each) or predicate(each.lower()) or predicate(each.upper())

    def escape(self) -> _Node:
        character = self.next()
        if character in "Az":
            return _Node("assertion", assertion="^" if character == "A" else "$")
        if character in "bB":
            return _Node("assertion", assertion=character)
        predicate = self.escaped_class(character)
        return _Node("character", predicate=predicate) if predicate else self.literal(self.escaped(character))

    def escaped_class(self, character: str) -> Predicate | None:
        if character in "pP":
            name = self.next()
            if name == "{":
                name = self.until("}")
            negated = (character == "P") != name.startswith("^")
            category = name.removeprefix("^")
            if category not in _CATEGORIES:
                raise self.error("invalid character class range")
            found: Predicate = lambda each: unicodedata.category(each).startswith(category)  # noqa: E731
            return _negate(found) if negated else found
        perl = _PERL.get(character.lower())
        return perl if perl is None or character.islower() else _negate(perl)

    def escaped(self, character: str) -> str:
        if character == "x":
            digits = self.until("}") if self.take("{") else self.next() + self.next()
            if digits and len(digits) <= 6 and all(map(_POSIX["xdigit"], digits)) and int(digits, 16) <= 0x10FFFF:
                return chr(int(digits, 16))
        elif character in _ESCAPES:
            return _ESCAPES[character]
        elif not (character.isascii() and character.isalnum()):
            return character
        raise self.error("invalid escape sequence")

    def set(self) -> Predicate:
        negated = self.take("^")
        found: list[Predicate] = []
        is_first = True
        while is_first or not self.peek("]"):
            found.append(self.set_member())
            is_first = False
        self.position += 1
        predicate = self.any_case(lambda each: any(member(each) for member in found))
        return _negate(predicate) if negated else predicate

    def set_member(self) -> Predicate:
        if self.take("[:"):
            name = self.until(":]")
            posix = _POSIX.get(name.removeprefix("^"))
            if posix is None:
                raise self.error("invalid character class range")
            return _negate(posix) if name.startswith("^") else posix
        low = self.next()
        if low == "\\":
            low = self.next()
            escaped = self.escaped_class(low)
            if escaped is not None:
                return escaped
            low = self.escaped(low)
        high = low
        if self.peek("-") and not self.peek("-]"):
            self.next()
            high = self.next()
            high = self.escaped(self.next()) if high == "\\" else high
        if high < low:
            raise self.error("invalid character class range")
        return lambda each: low <= each <= high


def _negate(predicate: Predicate) -> Predicate:
    return lambda each: not predicate(each)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


# Unicode's general categories: a letter, perhaps one more.
_CATEGORIES = frozenset(
    major + minor
    for major, minors in (
        ("L", "ultmo"),
        ("M", "nce"),
        ("N", "dlo"),
        ("P", "cdseifo"),
        ("S", "mcko"),
        ("Z", "slp"),
        ("C", "cfos"),
    )
    for minor in ("", *minors)
)


class _State:
    __slots__ = ("assertion", "is_end", "next", "predicate")

    def __init__(self) -> None:
        self.predicate: Predicate | None = None
        self.assertion = ""
        self.next: tuple[int, ...] = ()  # by a character if there is a predicate, otherwise without one
        self.is_end = False


class _Place:
    """The position of names that can continue in the same way: the states after the last character."""

    __slots__ = ("before", "following", "is_end", "states")

    def __init__(self, states: frozenset[int], before: str) -> None:
        self.states = states
        self.before = before  # the last character, as far as an assertion needs it: see _kind
        self.following: dict[str, _Place] = {}
        self.is_end: bool | None = None  # whether a name may end here; None: not known yet


class NameExpression:
    """ApiError(INVALID_REGULAR_EXPRESSION) for an unusable expression: at once, or during a match that takes too
    long.
    """

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._states: list[_State] = []
        self._start = 0
        self._visits = 0
        finish(self._compile())

    @classmethod
    def compile_in_steps(cls, expression: str) -> Generator[None, None, Self]:
        compiled = cls("")
        compiled._expression = expression
        yield from compiled._compile()
        return compiled

    def match_in_steps(self, name: str) -> Generator[None, None, bool]:
        """Takes no step for a name on a known path."""
        place = self._first
        for character in name:
            following = place.following.get(character)
            if following is None:
                following = self._follow(place, character)
                yield
            place = following
            if not place.states:
                return False
        if place.is_end is None:
            reached = self._closure(place.states, place.before, _NOTHING_HERE)
            place.is_end = any(self._states[index].is_end for index in reached)
        return place.is_end

    def _forget(self) -> None:
        self._first = _Place(frozenset((self._start,)), _NOTHING_HERE)
        self._places: dict[tuple[frozenset[int], str], _Place] = {}
        self._remembered = 0

    def _follow(self, place: _Place, character: str) -> _Place:
        """The place after `character`; remembers it."""
        kind = self._kind(character)
        moved = frozenset(
            following
            for index in self._closure(place.states, place.before, kind)
            if (state := self._states[index]).predicate is not None and state.predicate(character)
            for following in state.next
        )
        if self._remembered > _MAX_REMEMBERED:
            self._forget()
            return _Place(moved, kind)
        reached = self._places.get((moved, kind))
        if reached is None:
            reached = self._places[moved, kind] = _Place(moved, kind)
            self._remembered += len(moved)
        place.following[character] = reached
        self._remembered += 1
        return reached

    def _kind(self, character: str) -> str:
        return _WORD if self._tells_words and _PERL["w"](character) else _OTHER

    def _closure(self, states: frozenset[int], before: str, after: str) -> set[int]:
        """The states with all that are reached without a character."""
        reached = set(states)
        work = list(states)
        while work:
            state = self._states[work.pop()]
            if state.predicate is None and _holds(state.assertion, before, after):
                for following in state.next:
                    if following not in reached:
                        reached.add(following)
                        work.append(following)
        self._visits += len(reached)
        if self._visits > _MAX_VISITS:
            raise _refuse(self._expression[:100], "matching takes too long")
        return reached

    # -------------------------------------------------------------------------------------- building

    def _compile(self) -> Generator[None, None, None]:
        if len(self._expression) > _MAX_EXPRESSION_LENGTH:
            raise _refuse(self._expression[:100] + "...", "expression too large")
        parsed = _Parser(self._expression).parse()
        yield
        self._states = []
        end = self._new_state()
        self._states[end].is_end = True
        self._start = self._build(parsed, end)
        yield
        self._tells_words = any(state.assertion in ("b", "B") for state in self._states)
        self._forget()

    def _new_state(self, *following: int, assertion: str = "", predicate: Predicate | None = None) -> int:
        if len(self._states) >= _MAX_STATES:
            raise _refuse(self._expression[:100], "expression too large")
        state = _State()
        state.next, state.assertion, state.predicate = following, assertion, predicate
        self._states.append(state)
        return len(self._states) - 1

    def _build(self, node: _Node, following: int) -> int:
        """The state to enter for `node`, which leads to `following`."""
        if node.kind == "character":
            return self._new_state(following, predicate=node.predicate)
        if node.kind == "assertion":
            return self._new_state(following, assertion=node.assertion)
        if node.kind == "choice":
            return self._new_state(*(self._build(part, following) for part in node.parts))
        if node.kind == "repeat":
            return self._build_repeat(node, following)
        for part in reversed(node.parts):
            following = self._build(part, following)
        return following

    def _build_repeat(self, node: _Node, following: int) -> int:
        (part,) = node.parts
        if node.high == _UNBOUNDED:
            loop = self._new_state()
            self._states[loop].next = (self._build(part, loop), following)
            entry = loop
        else:
            entry = following
            for _ in range(node.high - node.low):
                entry = self._new_state(self._build(part, entry), following)
        for _ in range(node.low):
            entry = self._build(part, entry)
        return entry


# The classes that an assertion distinguishes for the character before or after a position.
_NOTHING_HERE = ""  # the name begins or ends
_WORD = "w"
_OTHER = "other"


def _holds(assertion: str, before: str, after: str) -> bool:
    if assertion == "^":
        return before == _NOTHING_HERE
    if assertion == "$":
        return after == _NOTHING_HERE
    if assertion in ("b", "B"):
        return ((before == _WORD) != (after == _WORD)) is (assertion == "b")
    return True
