"""Reads tokens one by one, and the options, which may stand almost anywhere in a file."""

from __future__ import annotations

from penstock.schemas.limits import Limits
from penstock.schemas.protobuf.elements import Aggregate, ListValue, Literal, Option, OptionValue, Symbol
from penstock.schemas.protobuf.tokens import END, Token, place, tokenize, unquote
from penstock.schemas.schema import InvalidSchemaError

_LARGEST = 1 << 32


class TokenReader:
    """The tokens of a file and a place among them. Blocks nest at most `deepest` deep."""

    def __init__(self, text: str, tokens: list[Token], deepest: int) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._deepest = deepest
        self._depth = 0

    def is_at_end(self) -> bool:
        return self._tokens[self._next].kind == END

    def is_string(self) -> bool:
        return self._tokens[self._next].kind == "string"

    def is_name(self) -> bool:
        return self._tokens[self._next].kind == "name"

    def at(self, *words: str) -> bool:
        token = self._tokens[self._next]
        return token.text in words and token.kind in ("name", "sign")

    def follows(self, *signs: str) -> bool:
        """Whether the token after the next is one of these."""
        return self._next + 1 < len(self._tokens) and self._tokens[self._next + 1].text in signs

    def take(self) -> Token:
        token = self._tokens[self._next]
        if token.kind != END:
            self._next += 1
        return token

    def accept(self, word: str) -> bool:
        if self.at(word):
            self._next += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.unexpected(repr(word))

    def open(self, bracket: str) -> None:
        self.expect(bracket)
        self._depth += 1
        if self._depth > self._deepest:
            raise InvalidSchemaError(f"The file nests more than {self._deepest} deep")

    def close(self) -> None:
        self._depth -= 1

    def unexpected(self, wanted: str) -> InvalidSchemaError:
        token = self._tokens[self._next]
        found = "the end" if token.kind == END else repr(token.text[:100])
        return InvalidSchemaError(f"Expected {wanted} before {found} {place(self._text, token.position)}")

    def name(self) -> str:
        if not self.is_name():
            raise self.unexpected("a name")
        return self.take().text

    def full_name(self) -> str:
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        return ".".join(parts)

    def type_name(self) -> str:
        return ("." if self.accept(".") else "") + self.full_name()

    def integer(self) -> int:
        is_negative = self.accept("-")
        token = self._tokens[self._next]
        try:
            if token.kind != "number" or len(token.text) > 20:
                raise ValueError
            is_octal = len(token.text) > 1 and token.text[0] == "0" and token.text[1] not in "xX"
            number = int(token.text, 8 if is_octal else 0)
        except ValueError:
            raise self.unexpected("a whole number") from None
        if number >= _LARGEST:
            raise self.unexpected("a smaller number")
        self.take()
        return -number if is_negative else number

    def string(self) -> bytes:
        if not self.is_string():
            raise self.unexpected("a string")
        parts: list[bytes] = []
        while self.is_string():
            parts.append(unquote(self.take().text))
        return b"".join(parts)


def read_option_value(text: str, limits: Limits) -> OptionValue:
    return OptionReader(text, tokenize(text, limits), limits.depth).value()


class OptionReader(TokenReader):
    def option_statement(self) -> Option:
        option = self._option()
        self.expect(";")
        return option

    def bracketed_options(self) -> list[Option]:
        options: list[Option] = []
        if self.accept("["):
            options.append(self._option())
            while self.accept(","):
                options.append(self._option())
            self.expect("]")
        return options

    def _option(self) -> Option:
        parts = [self._option_name_part()]
        while self.accept("."):
            parts.append(self._option_name_part())
        self.expect("=")
        return Option(".".join(parts), self.value())

    def _option_name_part(self) -> str:
        if self.accept("("):
            name = self.type_name()
            self.expect(")")
            return f"({name})"
        return self.name()

    def value(self) -> OptionValue:
        if self.is_string():
            return Literal(self.string())
        if self.at("{", "<"):
            return self._aggregate()
        if self.at("["):
            return self._list()
        sign = "-" if self.accept("-") else ""
        if not sign:
            self.accept("+")
        token = self._tokens[self._next]
        if token.kind not in ("name", "number"):
            raise self.unexpected("a value")
        return Symbol(sign + self.take().text)

    def _aggregate(self) -> Aggregate:
        closing = "}" if self.at("{") else ">"
        self.open("{" if closing == "}" else "<")
        entries: list[tuple[str, OptionValue]] = []
        while not self.accept(closing):
            key = self._aggregate_key()
            if not self.accept(":") and not self.at("{", "<"):
                raise self.unexpected("':'")
            entries.append((key, self.value()))
            if not self.accept(","):
                self.accept(";")
        self.close()
        return Aggregate(tuple(entries))

    def _aggregate_key(self) -> str:
        if not self.accept("["):
            return self.name()
        name = self.full_name()
        if self.accept("/"):
            name += "/" + self.full_name()
        self.expect("]")
        return f"[{name}]"

    def _list(self) -> ListValue:
        self.open("[")
        values: list[OptionValue] = []
        while not self.accept("]"):
            values.append(self.value())
            if not self.accept(",") and not self.at("]"):
                raise self.unexpected("','")
        self.close()
        return ListValue(tuple(values))
