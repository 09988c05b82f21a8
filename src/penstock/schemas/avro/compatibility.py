"""Whether a reader's Avro schema can read a writer's data, by the rules of Java's `SchemaCompatibility`.

Types of one kind are compared piece by piece. The reader must be able to read each branch of a writer's union; a
reader's union needs one branch that reads the writer's type. Short names decide whether two named types are the same.

Logical types do not count, unless the policy is LOGICAL: then a logical type that is gone, new or different is a
mismatch of types.

A pair of types that is being compared further up counts as compatible. If it turns out not to be, the results found
with that assumption are forgotten: Java keeps them, and so can call a recursive schema compatible that is not.
"""

from __future__ import annotations

from penstock.schemas.avro.logical import logical_properties
from penstock.schemas.avro.model import Array, AvroType, Enum, Field, Fixed, Map, Named, NoDefault, Record, Union
from penstock.schemas.avro.printer import print_schema
from penstock.schemas.limits import TOO_FAR_APART, Budget, Limits
from penstock.schemas.pairs import ComparedPairs
from penstock.schemas.schema import Difference, Policy

# Reader's kind -> the writer's kinds that are promoted to it.
_PROMOTIONS: dict[str, frozenset[str]] = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}

_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the {reader} schema does not match with "
    "the {writer} schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the {reader} schema does not match with the {writer} "
    "schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The {reader} schema is missing enum symbols '{info}' at path '{path}' in the {writer} "
    "schema",
    "MISSING_UNION_BRANCH": "The {reader} schema is missing a type inside a union field at path '{path}' in the "
    "{writer} schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at path '{path}' in the {reader} schema has no default "
    "value and is missing in the {writer} schema",
}


class _AmbiguousAliasError(Exception):
    """A reader's field matches several fields of the writer. Java ends the comparison there."""


def differences(reader: AvroType, writer: AvroType, policy: Policy, limits: Limits) -> list[Difference]:
    try:
        return _Check(limits, logical=policy is Policy.LOGICAL).compare(reader, writer, ())[: limits.differences]
    except _AmbiguousAliasError as error:
        text = f"Unexpected exception during compatibility check: {error}"
        return [Difference("AMBIGUOUS_ALIAS", "/", text, verbatim=text)]


class _Check:
    def __init__(self, limits: Limits, *, logical: bool) -> None:
        self._limits = limits
        self._logical = logical
        self._budget = Budget(limits, TOO_FAR_APART, limits.avro_depth)
        self._pairs = ComparedPairs[Difference](self._budget)

    def compare(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> list[Difference]:
        if reader.kind == writer.kind and reader.kind not in _PIECEWISE:
            self._budget.spend()
            return self._compare_logical(reader, writer, path)
        return self._pairs.compare(reader, writer, lambda: self._compare_new(reader, writer, path))

    def _compare_new(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> list[Difference]:
        if isinstance(writer, Union):
            return self._compare_branches(reader, writer, path)
        if isinstance(reader, Union):
            if any(
                self._may_fit(branch, writer) and not self.compare(branch, writer, ()) for branch in reader.branches
            ):
                return []
            return [_missing_branch(writer, path)]
        if isinstance(reader, Array) and isinstance(writer, Array):
            return self.compare(reader.items, writer.items, (*path, "items"))
        if isinstance(reader, Map) and isinstance(writer, Map):
            return self.compare(reader.values, writer.values, (*path, "values"))
        if isinstance(reader, Record) and isinstance(writer, Record):
            return _compare_names(reader, writer, path) + self._compare_fields(reader, writer, path)
        if isinstance(reader, Enum) and isinstance(writer, Enum):
            return _compare_names(reader, writer, path) + _compare_symbols(reader, writer, path)
        if isinstance(reader, Fixed) and isinstance(writer, Fixed):
            found = _compare_names(reader, writer, path) + _compare_sizes(reader, writer, path)
            return found + self._compare_logical(reader, writer, path)
        if writer.kind in _PROMOTIONS.get(reader.kind, frozenset()):
            return []
        return [_type_mismatch(reader, writer, path)]

    def _may_fit(self, branch: AvroType, writer: AvroType) -> bool:
        """Does not look into types of different names: a union may have hundreds of them."""
        self._budget.spend()
        if not isinstance(branch, Record | Enum | Fixed) or not isinstance(writer, Record | Enum | Fixed):
            return True
        return branch.kind == writer.kind and not _compare_names(branch, writer, ())

    def _compare_logical(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> list[Difference]:
        if not self._logical or logical_properties(reader) == logical_properties(writer):
            return []
        names = [logical_properties(each).get("logicalType", "none") for each in (reader, writer)]
        info = f"reader logical type: {names[0]} not compatible with writer logical type: {names[1]}"
        return [_difference("TYPE_MISMATCH", path, info)]

    def _compare_branches(self, reader: AvroType, writer: Union, path: tuple[str, ...]) -> list[Difference]:
        found: list[Difference] = []
        for index, branch in enumerate(writer.branches):
            branch_path = (*path, str(index))
            if not isinstance(reader, Union):
                found += self.compare(reader, branch, branch_path)
            elif self.compare(reader, branch, ()):
                found.append(_missing_branch(branch, branch_path))
        return found[: self._limits.differences]

    def _compare_fields(self, reader: Record, writer: Record, path: tuple[str, ...]) -> list[Difference]:
        self._budget.spend(len(reader.fields))
        found: list[Difference] = []
        written = {field.name: field for field in writer.fields}
        for index, field in enumerate(reader.fields):
            field_path = (*path, "fields", str(index))
            match = _writer_field(field, written, writer, index)
            if match is not None:
                found += self.compare(field.type, match.type, (*field_path, "type"))
            elif not isinstance(field.default, NoDefault):
                continue
            elif isinstance(field.type, Enum) and field.type.default is not None:
                # Java compares the enum with the whole record here, which never fits.
                found.append(_type_mismatch(field.type, writer, (*field_path, "type")))
            else:
                found.append(_difference("READER_FIELD_MISSING_DEFAULT_VALUE", field_path, field.name))
        return found[: self._limits.differences]


# Kinds with pieces to compare; two types of any other kind are the same type.
_PIECEWISE = frozenset({"array", "map", "union", "record", "enum", "fixed"})


def _writer_field(field: Field, written: dict[str, Field], writer: Record, index: int) -> Field | None:
    names = dict.fromkeys((field.name, *field.aliases))
    matches = [written[name] for name in names if name in written]
    if len(matches) > 1:
        description = f"{field.name} type:{field.type.kind.upper()} pos:{index}"
        raise _AmbiguousAliasError(
            f"Reader record field {description} matches multiple fields in writer record schema {print_schema(writer)}"
        )
    return matches[0] if matches else None


def _compare_names(reader: Named, writer: Named, path: tuple[str, ...]) -> list[Difference]:
    if reader.name.short == writer.name.short or any(alias.full == writer.name.full for alias in reader.aliases):
        return []
    return [_difference("NAME_MISMATCH", (*path, "name"), f"expected: {writer.name.full}")]


def _compare_symbols(reader: Enum, writer: Enum, path: tuple[str, ...]) -> list[Difference]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [_difference("MISSING_ENUM_SYMBOLS", (*path, "symbols"), f"[{', '.join(missing)}]")]


def _compare_sizes(reader: Fixed, writer: Fixed, path: tuple[str, ...]) -> list[Difference]:
    if reader.size == writer.size:
        return []
    return [_difference("FIXED_SIZE_MISMATCH", (*path, "size"), f"expected: {writer.size}, found: {reader.size}")]


def _type_mismatch(reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> Difference:
    info = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
    return _difference("TYPE_MISMATCH", path, info)


def _missing_branch(writer: AvroType, path: tuple[str, ...]) -> Difference:
    return _difference("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.kind.upper()}")


def _difference(kind: str, path: tuple[str, ...], info: str) -> Difference:
    pointer = "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in path)
    return Difference(kind, pointer, _DESCRIPTIONS[kind], info)
