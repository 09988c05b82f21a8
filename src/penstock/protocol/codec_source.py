"""Writes the Python source of encoders and decoders. `codec` compiles it and knows the rules that it keeps.

A sliced function is a generator that does the same and yields after every few elements, so that whoever runs it can
give others a turn.
"""

from __future__ import annotations

import struct
from typing import Any

from penstock.protocol.fields import Field
from penstock.protocol.message import Message
from penstock.protocol.varints import read_unsigned_varint, write_unsigned_varint

_FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
_STRING_MAX = 32767
# An element takes about 1 us, unless its strings are long: 32 KB take some 5 us. So a sliced function yields after some
# tenths of a millisecond at most.
_ELEMENTS_PER_STEP = 64


class CodecSource:
    """Python source under construction, and the globals it will see."""

    def __init__(self, signature: str, sliced: bool) -> None:
        self.lines = [signature]
        self.indent = 1
        self.sliced = sliced
        self.names: dict[str, Any] = {"read_varint": read_unsigned_varint, "write_varint": write_unsigned_varint}
        self._count = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def variable(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.variable(stem)
        self.names[name] = value
        return name

    def start(self) -> None:
        if self.sliced:
            self.add(f"left = {_ELEMENTS_PER_STEP}")
            self.add("if False: yield")  # a generator, even if the message has no arrays

    def step(self) -> None:
        """An element is done."""
        if self.sliced:
            self.add("left -= 1")
            self.add(f"if not left: left = {_ELEMENTS_PER_STEP}; yield")

    def compile(self, name: str) -> Any:
        exec(compile("\n".join(self.lines), f"<codec {name}>", "exec"), self.names)  # noqa: S102  # our own lines
        return self.names["run"]


def _split(fields: tuple[Field, ...], version: int) -> tuple[list[Field], list[Field], list[Field]]:
    """(plain, tagged by tag, absent) fields of this version"""
    plain, tagged, absent = [], [], []
    for field in fields:
        if field.is_tagged(version):
            tagged.append(field)
        elif field.is_in(version):
            plain.append(field)
        else:
            absent.append(field)
    return plain, sorted(tagged, key=lambda field: field.tag or 0), absent


# ---------------------------------------------------------------------------------------------------- encoding


class EncoderSource(CodecSource):
    def __init__(self, version: int, flexible: bool, sliced: bool, is_request: bool) -> None:
        super().__init__("def run(m, out, chunks):", sliced)
        self.is_request = is_request
        self.names["TooLong"] = struct.error  # as for a length that does not fit its two bytes
        self.version = version
        self.flexible = flexible
        self.start()

    def struct(self, message_class: type[Message], value: str) -> None:
        plain, tagged, _ = _split(message_class.FIELDS, self.version)
        run: list[Field] = []
        for field in plain:
            if isinstance(field.kind, str) and field.kind in _FIXED:
                run.append(field)
                continue
            self.fixed(run, value)
            run = []
            self.field(field, f"{value}.{field.attribute}")
        self.fixed(run, value)
        if self.flexible:
            self.tagged(tagged, value)

    def fixed(self, run: list[Field], value: str) -> None:
        if run:
            pack = self.constant("pack", struct.Struct(">" + "".join(_FIXED[field.kind] for field in run)).pack)
            self.add(f"out += {pack}({', '.join(f'{value}.{field.attribute}' for field in run)})")

    def field(self, field: Field, expression: str) -> None:
        kind = field.kind
        nullable = field.is_nullable(self.version)
        value = self.variable("v")
        self.add(f"{value} = {expression}")
        if isinstance(kind, list):
            self.array(kind[0], value, nullable)
        elif isinstance(kind, str):
            self.scalar(kind, value, nullable)
        elif nullable:
            # Kafka marks a struct that is not there by -1, but by 0 where it is a tagged field.
            self.add(f"if {value} is None: out.append({0 if field.is_tagged(self.version) else 255})")
            self.add("else:")
            self.indent += 1
            self.add("out.append(1)")
            self.struct(kind, value)
            self.indent -= 1
        else:
            self.struct(kind, value)

    def length(self, expression: str, width: str) -> None:
        """A length or count; compact ones are one more than they say, 0 meaning null."""
        if self.flexible:
            size = self.variable("n")
            self.add(f"{size} = {expression} + 1")
            self.add(f"if {size} < 128: out.append({size})")
            self.add(f"else: write_varint(out, {size})")
        else:
            pack = self.constant("pack", struct.Struct(">" + width).pack)
            self.add(f"out += {pack}({expression})")

    def null_or(self, value: str, width: str, nullable: bool) -> None:
        """Leaves the source inside the branch where `value` is there; the caller takes the indent back."""
        self.add(f"if {value} is None:")
        self.indent += 1
        if nullable:
            self.add(
                "out.append(0)" if self.flexible else f"out += {self.constant('null', struct.pack('>' + width, -1))}"
            )
        else:
            self.add("raise TypeError('null where the protocol allows none')")
        self.indent -= 1
        self.add("else:")
        self.indent += 1

    def array(self, element: Any, value: str, nullable: bool) -> None:
        if not nullable:  # where a version knows no null array, an empty one says the same as far as that version can
            self.add(f"if {value} is None: {value} = ()")
        self.null_or(value, "i", nullable)
        self.length(f"len({value})", "i")
        if isinstance(element, str) and element in _FIXED:
            letter = self.constant("letter", _FIXED[element])
            pack = self.constant("pack", struct.pack)
            self.add(f"if {value}: out += {pack}(f'>{{len({value})}}{{{letter}}}', *{value})")
        else:
            item = self.variable("e")
            self.add(f"for {item} in {value}:")
            self.indent += 1
            if isinstance(element, str):
                self.scalar(element, item, False)
            else:
                self.struct(element, item)
            self.step()
            self.indent -= 1
        self.indent -= 1

    def scalar(self, kind: str, value: str, nullable: bool) -> None:
        if kind in _FIXED:
            pack = self.constant("pack", struct.Struct(">" + _FIXED[kind]).pack)
            self.add(f"out += {pack}({value})")
        elif kind == "uuid":
            self.add(f"out += {value}")
        elif kind == "string":
            self.null_or(value, "h", nullable)
            text = self.variable("b")
            self.add(f"{text} = {value}.encode()")
            self.length(f"len({text})", "h")
            if self.flexible and self.is_request:  # no broker reads it, and each closes the connection
                words = f"'a string has more than {_STRING_MAX:,} bytes'"
                self.add(f"if len({text}) > {_STRING_MAX}: raise TooLong({words})")
            self.add(f"out += {text}")
            self.indent -= 1
        elif kind == "bytes":
            self.null_or(value, "i", nullable)
            self.length(f"len({value})", "i")
            self.add(f"out += {value}")
            self.indent -= 1
        else:
            assert kind == "records", kind
            self.null_or(value, "i", True)
            self.length(f"len({value})", "i")
            self.add("chunks.append(out)")
            self.add(f"chunks.append({value})")
            self.add("out = bytearray()")
            self.indent -= 1

    def tagged(self, fields: list[Field], value: str) -> None:
        """A tagged field is sent only if its value differs from the default."""
        if not fields:
            self.add("out.append(0)")
            return
        tags = self.variable("tags")
        self.add(f"{tags} = []")
        for field in fields:
            default = self.constant("default", [] if field.default == () else field.default)
            if isinstance(field.kind, type) and field.is_nullable(self.version):
                self.add("if True:")  # Kafka sends such a struct even where it is null and that is the default
            else:
                self.add(f"if {value}.{field.attribute} is not None and {value}.{field.attribute} != {default}:")
            self.indent += 1
            saved = self.variable("saved")
            self.add(f"{saved} = out; out = bytearray()")
            self.field(field, f"{value}.{field.attribute}")
            self.add(f"{tags}.append(({field.tag}, out)); out = {saved}")
            self.indent -= 1
        self.add(f"write_varint(out, len({tags}))")
        self.add(f"for tag, payload in {tags}:")
        self.add("    write_varint(out, tag); write_varint(out, len(payload)); out += payload")


# ---------------------------------------------------------------------------------------------------- decoding


class DecoderSource(CodecSource):
    def __init__(self, version: int, flexible: bool, max_elements: int, sliced: bool) -> None:
        super().__init__("def run(data, pos, end):", sliced)
        self.version = version
        self.flexible = flexible
        self.max_elements = max_elements
        self.start()
        self.add("total = 0")

    def struct(self, message_class: type[Message], target: str) -> None:
        plain, tagged, absent = _split(message_class.FIELDS, self.version)
        new = self.constant("new", message_class.__new__)
        cls = self.constant("cls", message_class)
        self.add(f"{target} = {new}({cls})")
        for field in absent + tagged:
            self.default(field, target)
        run: list[Field] = []
        for field in plain:
            if isinstance(field.kind, str) and field.kind in _FIXED:
                run.append(field)
                continue
            self.fixed(run, target)
            run = []
            self.field(field, f"{target}.{field.attribute}")
        self.fixed(run, target)
        if self.flexible:
            self.tagged(tagged, target)

    def default(self, field: Field, target: str) -> None:
        if field.default == ():
            self.add(f"{target}.{field.attribute} = []")
        else:
            self.add(f"{target}.{field.attribute} = {self.constant('default', field.default)}")

    def fixed(self, run: list[Field], target: str) -> None:
        if run:
            layout = struct.Struct(">" + "".join(_FIXED[field.kind] for field in run))
            unpack = self.constant("unpack", layout.unpack_from)
            targets = ", ".join(f"{target}.{field.attribute}" for field in run) + ("," if len(run) == 1 else "")
            self.add(f"{targets} = {unpack}(data, pos)")
            self.add(f"pos += {layout.size}")

    def field(self, field: Field, target: str) -> None:
        kind = field.kind
        nullable = field.is_nullable(self.version)
        if isinstance(kind, list):
            self.array(kind[0], target, nullable)
        elif isinstance(kind, str):
            self.scalar(kind, target, nullable)
        else:
            value = self.variable("s")
            if nullable:
                absent = "present in (0, 255)" if field.is_tagged(self.version) else "present == 255"
                self.add("present = data[pos]; pos += 1")
                self.add(f"if {absent}: {value} = None")
                self.add("else:")
                self.indent += 1
            self.struct(kind, value)
            if nullable:
                self.indent -= 1
            self.add(f"{target} = {value}")

    def length(self, name: str, width: str) -> None:
        """`name` becomes the length, -1 for null."""
        if self.flexible:
            self.add(f"{name} = data[pos]; pos += 1")
            self.add(f"if {name} > 127: {name}, pos = read_varint(data, pos - 1)")
            self.add(f"{name} -= 1")
        else:
            layout = struct.Struct(">" + width)
            unpack = self.constant("unpack", layout.unpack_from)
            self.add(f"{name}, = {unpack}(data, pos); pos += {layout.size}")

    def null_or(self, name: str, target: str, nullable: bool) -> None:
        """Leaves the source inside the branch where something follows; the caller takes the indent back."""
        self.add(f"if {name} < 0:")
        self.indent += 1
        if nullable:
            self.add(f"if {name} != -1: raise ValueError('a negative length')")
            self.add(f"{target} = None")
        else:
            self.add("raise ValueError('null where the protocol allows none')")
        self.indent -= 1
        self.add("else:")
        self.indent += 1

    def array(self, element: Any, target: str, nullable: bool) -> None:
        count = self.variable("n")
        self.length(count, "i")
        self.null_or(count, target, nullable)
        self.add(f"total += {count}")
        # Every element takes at least one byte, so a count above what is left is a lie.
        self.add(f"if {count} > end - pos: raise ValueError('an array is longer than its data')")
        self.add(
            f"if total > {self.max_elements}:"
            f" raise ValueError('its arrays have more than {self.max_elements:,} elements, the limit')"
        )
        if isinstance(element, str) and element in _FIXED:
            size = struct.calcsize(">" + _FIXED[element])
            unpack = self.constant("unpack", struct.unpack_from)
            letter = self.constant("letter", _FIXED[element])
            self.add(f"{target} = list({unpack}(f'>{{{count}}}{{{letter}}}', data, pos)); pos += {count} * {size}")
        else:
            items, item = self.variable("items"), self.variable("e")
            self.add(f"{items} = []")
            self.add(f"for _ in range({count}):")
            self.indent += 1
            if isinstance(element, str):
                self.scalar(element, item, False)
            else:
                self.struct(element, item)
            self.add(f"{items}.append({item})")
            self.step()
            self.indent -= 1
            self.add(f"{target} = {items}")
        self.indent -= 1

    def scalar(self, kind: str, target: str, nullable: bool) -> None:
        if kind in _FIXED:
            layout = struct.Struct(">" + _FIXED[kind])
            unpack = self.constant("unpack", layout.unpack_from)
            self.add(f"{target}, = {unpack}(data, pos); pos += {layout.size}")
            return
        if kind == "uuid":
            self.add("if pos + 16 > end: raise ValueError('a uuid runs past the end')")
            self.add(f"{target} = bytes(data[pos:pos + 16]); pos += 16")
            return
        size = self.variable("n")
        self.length(size, "h" if kind == "string" else "i")
        self.null_or(size, target, nullable or kind == "records")
        stop = self.variable("stop")
        self.add(f"{stop} = pos + {size}")
        self.add(f"if {stop} > end: raise ValueError('a {kind} field runs past the end')")
        if kind == "string":
            self.add(f"if {size} > {_STRING_MAX}: raise ValueError('a string is too long')")
            self.add(f"{target} = str(data[pos:{stop}], 'utf-8'); pos = {stop}")
        elif kind == "bytes":
            self.add(f"{target} = bytes(data[pos:{stop}]); pos = {stop}")
        else:
            assert kind == "records", kind
            self.names["memoryview"] = memoryview
            self.add(f"{target} = memoryview(data)[pos:{stop}]; pos = {stop}")
        self.indent -= 1

    def tagged(self, fields: list[Field], target: str) -> None:
        """Unknown tags come from newer clients and are skipped, as the protocol asks."""
        count, size, stop = self.variable("n"), self.variable("n"), self.variable("stop")
        self.add("if data[pos] == 0: pos += 1")
        self.add("else:")
        self.indent += 1
        self.add(f"{count}, pos = read_varint(data, pos)")
        self.add(f"total += {count}")
        self.add(
            f"if {count} > end - pos or total > {self.max_elements}: raise ValueError('more tagged fields than data')"
        )
        self.add(f"for _ in range({count}):")
        self.indent += 1
        self.add("tag, pos = read_varint(data, pos)")
        self.add(f"{size}, pos = read_varint(data, pos)")
        self.add(f"{stop} = pos + {size}")
        self.add(f"if {stop} > end: raise ValueError('a tagged field runs past the end')")
        for index, field in enumerate(fields):
            self.add(f"{'el' if index else ''}if tag == {field.tag}:")
            self.indent += 1
            self.field(field, f"{target}.{field.attribute}")
            self.add(f"if pos != {stop}: raise ValueError('a tagged field has the wrong size')")
            self.indent -= 1
        self.add(f"pos = {stop}")
        self.step()
        self.indent -= 2
