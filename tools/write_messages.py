"""Writes src/penstock/protocol/messages/ from Kafka's message definitions.

    python tools/write_messages.py JAR...

The jars (kafka-clients, kafka-group-coordinator, kafka-transaction-coordinator) carry the definitions as JSON. Only
facts are taken: names, types, versions and defaults. Run again when a new Kafka release adds a version, and read the
difference.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import zipfile
from typing import Any

OUT = pathlib.Path(__file__).parent.parent / "src/penstock/protocol/messages"
UNBOUNDED = 32767
PRIMITIVES = {
    "bool": ("bool", "False"),
    "int8": ("int", "0"),
    "int16": ("int", "0"),
    "uint16": ("int", "0"),
    "int32": ("int", "0"),
    "uint32": ("int", "0"),
    "int64": ("int", "0"),
    "float64": ("float", "0.0"),
    "string": ("str", '""'),
    "bytes": ("bytes", 'b""'),
    "uuid": ("bytes", "ZERO_UUID"),
}
# Served by controllers, or between brokers of another design.
SKIPPED = re.compile(
    r"Envelope|Raft|Quorum(?!Re)|Vote|FetchSnapshot|BrokerRegistration|BrokerHeartbeat|ControllerRegistration|AllocateProducerIds"
    r"|AssignReplicasToDirs|Snapshot|LeaderChange|KRaftVersion|Voters|DefaultPrincipal|LeaderAndIsr|StopReplica|UpdateMetadata"
    r"|ControlledShutdown|AlterPartitionRe(quest|sponse)$|UnregisterBroker|UpdateFeatures|ShareGroupState|DelegationToken|Legacy|Streams"
    r"|Header|Telemetry|ConsumerGroupPartitionMetadata"
)

Json = dict[str, Any]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def versions(text: str | None) -> tuple[int, int] | None:
    if text is None or text == "none":
        return None
    if text.endswith("+"):
        return int(text[:-1]), UNBOUNDED
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Definition:
    """One message: its classes, innermost first."""

    def __init__(self, document: Json, taken: set[str]) -> None:
        self.document = document
        self.name: str = document["name"]
        self.is_response = document["type"] == "response"
        self.taken = taken
        self.common = {struct["name"]: struct for struct in document.get("commonStructs", ())}
        self.class_names: dict[str, str] = {}
        self.lines: list[str] = []

    def render(self, trailer: list[str]) -> list[str]:
        self.emit_class(self.name, self.document["fields"], trailer)
        return self.lines

    def class_name(self, struct: str) -> str:
        """Structs of request and response may share a name; then the message's name goes in front."""
        if struct not in self.class_names:
            self.class_names[struct] = struct if struct not in self.taken else self.name + struct
            self.taken.add(self.class_names[struct])
        return self.class_names[struct]

    def emit_class(self, struct: str, fields: list[Json], trailer: list[str]) -> str:
        name = self.class_name(struct)
        rows, slots, parameters, body = [], [], [], []
        for field in fields:
            kind, annotation = self.field_kind(field)
            attribute = snake(field["name"])
            default = self.default(field, annotation)
            is_list = annotation.startswith("list")
            nullable = versions(field.get("nullableVersions"))
            if nullable or default == "None":
                annotation += " | None"
            slots.append(attribute)
            rows.append(
                f'        ("{attribute}", {kind}, {versions(field.get("versions"))}, {nullable}, '
                f"{field.get('tag')}, {versions(field.get('taggedVersions'))}, {default}),"
            )
            if is_list and not nullable:
                parameters.append(f"        {attribute}: {annotation} | None = None,")
                body.append(f"        self.{attribute} = [] if {attribute} is None else {attribute}")
            else:
                shown = "None" if is_list else default
                parameters.append(f"        {attribute}: {annotation} = {shown},")
                body.append(f"        self.{attribute} = {attribute}")
        quoted = ", ".join(f'"{slot}"' for slot in slots) + ("," if len(slots) == 1 else "")
        self.lines += ["", "", f"class {name}(Message):", f"    __slots__ = ({quoted})"]
        self.lines += ["    FIELDS = (", *rows, "    )"] if rows else ["    FIELDS = ()"]
        if trailer:
            self.lines += trailer
        if rows:
            self.lines += ["", "    def __init__(", "        self,", "        *,", *parameters, "    ) -> None:", *body]
        return name

    def field_kind(self, field: Json) -> tuple[str, str]:
        """(expression of the codec's kind, annotation)"""
        kind: str = field["type"]
        if kind.startswith("[]"):
            inner, annotation = self.scalar_kind(kind[2:], field)
            return f"[{inner}]", f"list[{annotation}]"
        return self.scalar_kind(kind, field)

    def scalar_kind(self, kind: str, field: Json) -> tuple[str, str]:
        if kind in PRIMITIVES:
            return f'"{kind}"', PRIMITIVES[kind][0]
        if kind == "records":
            return '"records"', "Chunk" if self.is_response else "Buffer"
        if kind not in self.class_names:
            fields = field.get("fields") or self.common[kind]["fields"]
            name = self.emit_class(kind, fields, [])
        else:
            name = self.class_names[kind]
        return name, name

    def default(self, field: Json, annotation: str) -> str:
        given = field.get("default")
        kind: str = field["type"]
        if given == "null" or kind == "records":
            return "None"
        if kind.startswith("[]"):
            return "()"
        if kind not in PRIMITIVES:
            return "None"
        if given in (None, ""):
            return PRIMITIVES[kind][1]
        if kind == "string":
            return json.dumps(given)
        if kind == "bool":
            return str(given).capitalize()
        return str(int(str(given), 0)) if kind != "float64" else str(float(given))


def message_trailer(document: Json, response: str | None) -> list[str]:
    low, high = versions(document["validVersions"]) or (0, -1)
    if document.get("latestVersionUnstable"):
        high -= 1
    flexible = versions(document["flexibleVersions"])
    lines = [
        f"    MIN_VERSION = {low}",
        f"    MAX_VERSION = {high}",
        f"    FLEXIBLE_FROM = {flexible[0] if flexible else UNBOUNDED}",
    ]
    if "apiKey" in document:
        lines.insert(0, f"    API_KEY = {document['apiKey']}")
    if response:
        lines.append(f"    RESPONSE = {response}")
    return lines


def read_definitions(jars: list[str]) -> dict[str, Json]:
    definitions = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if re.search(r"message/[A-Z]\w+\.json$", entry):
                    text = archive.read(entry).decode()
                    document = json.loads(re.sub(r"^\s*//.*$|(?<=[,{\[\]}\"])\s*//.*$", "", text, flags=re.MULTILINE))
                    if document["validVersions"] != "none" and not SKIPPED.search(document["name"]):
                        definitions[document["name"]] = document
    return definitions


def render_module(name: str, documents: list[Json]) -> str:
    taken: set[str] = set()
    body: list[str] = []
    response = None
    for document in documents:
        is_request = document["type"] == "request"
        body += Definition(document, taken).render(message_trailer(document, response if is_request else None))
        response = document["name"]
    text = "\n".join(body)
    imports = [word for word in ("ZERO_UUID", "Buffer", "Chunk", "Message") if re.search(rf"\b{word}\b", text)]
    head = [
        f'"""{name}: written by tools/write_messages.py from Kafka\'s definitions. Do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        f"from penstock.protocol.message import {', '.join(imports)}",
    ]
    return "\n".join(head) + "\n" + text + "\n"


def main(jars: list[str]) -> None:
    definitions = read_definitions(jars)
    for stale in OUT.glob("*.py"):
        stale.unlink()
    (OUT / "__init__.py").write_text('"""Message classes, one module per API. Written by tools/write_messages.py."""\n')
    for name, document in sorted(definitions.items()):
        if document["type"] == "request":
            base = name.removesuffix("Request")
            documents = [definitions[base + "Response"], document]
        elif document["type"] == "response":
            continue
        else:
            base, documents = name, [document]
        (OUT / f"{snake(base)}.py").write_text(render_module(base, documents))


if __name__ == "__main__":
    main(sys.argv[1:])
