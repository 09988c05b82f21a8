"""A .proto file by the grammar of proto2, proto3 and editions, one function for each kind of statement."""

from __future__ import annotations

from collections.abc import Callable

from penstock.schemas.limits import Limits
from penstock.schemas.protobuf.elements import (
    MAX_ENUM_NUMBER,
    MAX_FIELD_NUMBER,
    Enum,
    EnumConstant,
    Extend,
    Extensions,
    Field,
    Message,
    OneOf,
    Option,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)
from penstock.schemas.protobuf.option_reading import OptionReader
from penstock.schemas.protobuf.tokens import tokenize

_LABELS = frozenset({"optional", "required", "repeated"})


def read_proto(text: str, limits: Limits) -> ProtoFile:
    return _Reader(text, limits).file()


class _Reader(OptionReader):
    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text, tokenize(text, limits), limits.depth)

    def file(self) -> ProtoFile:
        file = ProtoFile()
        statements: dict[str, Callable[[], None]] = {
            "package": lambda: self._package(file),
            "import": lambda: self._import(file),
            "option": lambda: file.options.append(self.option_statement()),
            "message": lambda: file.messages.append(self._message()),
            "enum": lambda: file.enums.append(self._enum()),
            "extend": lambda: file.extends.append(self._extend()),
            "service": lambda: file.services.append(self._service()),
        }
        if self.at("syntax", "edition"):
            file.syntax = self._syntax()
        while not self.is_at_end():
            if self.accept(";"):
                continue
            if not self.at(*statements):
                raise self.unexpected("a statement")
            statements[self.take().text]()
        return file

    def _syntax(self) -> str:
        is_syntax = self.take().text == "syntax"
        self.expect("=")
        name = self.string().decode("utf-8", "replace")
        self.expect(";")
        if is_syntax != (name in ("proto2", "proto3")) or (not is_syntax and not name.isdecimal()):
            raise self.unexpected("a syntax that is known")
        return name

    def _package(self, file: ProtoFile) -> None:
        if file.package is not None:
            raise self.unexpected("one package only")
        file.package = self.full_name()
        self.expect(";")

    def _import(self, file: ProtoFile) -> None:
        is_public = self.accept("public")
        if not is_public:
            # A weak import counts as an import here.
            self.accept("weak")
        name = self.string().decode("utf-8", "replace")
        self.expect(";")
        (file.public_imports if is_public else file.imports).append(name)

    def _message(self) -> Message:
        message = Message(self.name())
        self._message_body(message)
        return message

    def _message_body(self, message: Message) -> None:
        statements: dict[str, Callable[[], None]] = {
            "message": lambda: message.messages.append(self._message()),
            "enum": lambda: message.enums.append(self._enum()),
            "extend": lambda: message.extends.append(self._extend()),
            "oneof": lambda: message.oneofs.append(self._oneof()),
            "option": lambda: message.options.append(self.option_statement()),
            "reserved": lambda: message.reserved.append(self._reserved(MAX_FIELD_NUMBER)),
            "extensions": lambda: message.extensions.append(self._extensions()),
        }
        self.open("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            if self.at(*statements):
                statements[self.take().text]()
            else:
                message.fields.append(self._field())
        self.close()

    def _field(self) -> Field:
        label = self.take().text if self.at(*_LABELS) else None
        if self.at("group") and not self.follows("."):
            return self._group(label)
        map_key = None
        if self.at("map") and self.follows("<"):
            self.take()
            self.expect("<")
            map_key = self.name()
            self.expect(",")
            kind = self.type_name()
            self.expect(">")
        else:
            kind = self.type_name()
        name = self.name()
        self.expect("=")
        field = Field(name, self.integer(), kind, label, map_key, self.bracketed_options())
        self.expect(";")
        return field

    def _group(self, label: str | None) -> Field:
        self.take()
        name = self.name()
        self.expect("=")
        number = self.integer()
        options = self.bracketed_options()
        body = Message(name)
        self._message_body(body)
        return Field(name.lower(), number, name, label, None, options, body)

    def _oneof(self) -> OneOf:
        oneof = OneOf(self.name())
        self.open("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            if self.accept("option"):
                oneof.options.append(self.option_statement())
            else:
                oneof.fields.append(self._field())
        self.close()
        return oneof

    def _enum(self) -> Enum:
        enum = Enum(self.name())
        self.open("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            if self.at("option") and not self.follows("="):
                self.take()
                enum.options.append(self.option_statement())
            elif self.at("reserved") and not self.follows("="):
                self.take()
                enum.reserved.append(self._reserved(MAX_ENUM_NUMBER))
            else:
                enum.constants.append(self._constant())
        self.close()
        return enum

    def _constant(self) -> EnumConstant:
        name = self.name()
        self.expect("=")
        constant = EnumConstant(name, self.integer(), self.bracketed_options())
        self.expect(";")
        return constant

    def _reserved(self, largest: int) -> Reserved:
        values: list[Range | str] = []
        while True:
            if self.is_string():
                values.append(self.string().decode("utf-8", "replace"))
            elif self.is_name():
                values.append(self.name())
            else:
                values.append(self._range(largest))
            if not self.accept(","):
                break
        self.expect(";")
        return Reserved(values)

    def _extensions(self) -> Extensions:
        ranges = [self._range(MAX_FIELD_NUMBER)]
        while self.accept(","):
            ranges.append(self._range(MAX_FIELD_NUMBER))
        extensions = Extensions(ranges, self.bracketed_options())
        self.expect(";")
        return extensions

    def _range(self, largest: int) -> Range:
        start = self.integer()
        if not self.accept("to"):
            return Range(start, start, is_single=True)
        end = largest if self.accept("max") else self.integer()
        if end < start:
            raise self.unexpected("a range that ends after its start")
        return Range(start, end)

    def _extend(self) -> Extend:
        extend = Extend(self.type_name())
        self.open("{")
        while not self.accept("}"):
            if not self.accept(";"):
                extend.fields.append(self._field())
        self.close()
        return extend

    def _service(self) -> Service:
        service = Service(self.name())
        self.open("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            if self.accept("option"):
                service.options.append(self.option_statement())
            else:
                self.expect("rpc")
                service.rpcs.append(self._rpc())
        self.close()
        return service

    def _rpc(self) -> Rpc:
        name = self.name()
        streams_request, request = self._rpc_type()
        self.expect("returns")
        streams_response, response = self._rpc_type()
        return Rpc(name, request, response, streams_request, streams_response, self._rpc_options())

    def _rpc_type(self) -> tuple[bool, str]:
        self.expect("(")
        is_stream = self.at("stream") and not self.follows(")")
        if is_stream:
            self.take()
        name = self.type_name()
        self.expect(")")
        return is_stream, name

    def _rpc_options(self) -> list[Option]:
        options: list[Option] = []
        if self.accept(";"):
            return options
        self.open("{")
        while not self.accept("}"):
            if not self.accept(";"):
                self.expect("option")
                options.append(self.option_statement())
        self.close()
        return options
