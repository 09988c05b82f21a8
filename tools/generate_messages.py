"""Writes src/penstock/protocol/messages/ from what Kafka defines.

    python tools/generate_messages.py [--check | --from JAR...]

The definitions of the messages that Penstock serves, sends or stores are in `kafka_messages.json` beside this file.
Only facts are kept there: names, types, versions and defaults. Without an option the modules are written from that
file; with `--check` nothing is written, and the exit code says whether every module is as it would be written.

`--from` reads the definitions again from Kafka's jars (kafka-clients, kafka-group-coordinator,
kafka-transaction-coordinator) before the modules are written. It is needed when a new Kafka release adds a version, and
for a message that is new in `WANTED`. Nothing is written when the jars lack a wanted message. Read the difference
afterwards. `make interop` compares with the jars.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
import zipfile
from typing import Any

DEFINITIONS = pathlib.Path(__file__).with_name("kafka_messages.json")
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
# The messages by area; a request brings its response along.
WANTED = frozenset(
    [
        "ApiVersionsRequest",
        "MetadataRequest",
        "DescribeClusterRequest",
        "DescribeTopicPartitionsRequest",
        "ProduceRequest",
        "FetchRequest",
        "ListOffsetsRequest",
        "OffsetForLeaderEpochRequest",
        "DeleteRecordsRequest",
        "CreateTopicsRequest",
        "DeleteTopicsRequest",
        "CreatePartitionsRequest",
        "DescribeConfigsRequest",
        "AlterConfigsRequest",
        "IncrementalAlterConfigsRequest",
        "ListConfigResourcesRequest",
        "DescribeLogDirsRequest",
        "AlterReplicaLogDirsRequest",
        "UpdateFeaturesRequest",
        "DescribeQuorumRequest",
        "UnregisterBrokerRequest",
        "ElectLeadersRequest",
        "AlterPartitionReassignmentsRequest",
        "ListPartitionReassignmentsRequest",
        "AlterPartitionRequest",
        "EnvelopeRequest",
        "DefaultPrincipalData",
        "BrokerHeartbeatRequest",
        "AssignReplicasToDirsRequest",
        "FindCoordinatorRequest",
        "JoinGroupRequest",
        "SyncGroupRequest",
        "HeartbeatRequest",
        "LeaveGroupRequest",
        "ListGroupsRequest",
        "DescribeGroupsRequest",
        "DeleteGroupsRequest",
        "OffsetCommitRequest",
        "OffsetFetchRequest",
        "OffsetDeleteRequest",
        "ConsumerGroupHeartbeatRequest",
        "ConsumerGroupDescribeRequest",
        "ConsumerProtocolAssignment",
        "ConsumerProtocolSubscription",
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
        "ConsumerGroupMetadataKey",
        "ConsumerGroupMetadataValue",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue",
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
        "InitProducerIdRequest",
        "AddPartitionsToTxnRequest",
        "AddOffsetsToTxnRequest",
        "TxnOffsetCommitRequest",
        "EndTxnRequest",
        "WriteTxnMarkersRequest",
        "DescribeProducersRequest",
        "DescribeTransactionsRequest",
        "ListTransactionsRequest",
        "TransactionLogKey",
        "TransactionLogValue",
        "SaslHandshakeRequest",
        "SaslAuthenticateRequest",
        "DescribeAclsRequest",
        "CreateAclsRequest",
        "DeleteAclsRequest",
        "DescribeClientQuotasRequest",
        "AlterClientQuotasRequest",
        "DescribeUserScramCredentialsRequest",
        "AlterUserScramCredentialsRequest",
        "CreateDelegationTokenRequest",
        "RenewDelegationTokenRequest",
        "ExpireDelegationTokenRequest",
        "DescribeDelegationTokenRequest",
    ]
)
# What is kept of a message and of a field.
MESSAGE_FACTS = ("name", "type", "apiKey", "validVersions", "latestVersionUnstable", "flexibleVersions")
FIELD_FACTS = ("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "default")

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
            rows.append(f"        {self.row(field, attribute, kind, default)},")
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

    def row(self, field: Json, attribute: str, kind: str, default: str) -> str:
        described = [f'"{attribute}"', kind, str(versions(field.get("versions")))]
        if field.get("nullableVersions"):
            described.append(f"nullable={versions(field['nullableVersions'])}")
        if "tag" in field:
            described.append(f"tag={field['tag']}, tagged={versions(field['taggedVersions'])}")
        if default != "None":
            described.append(f"default={default}")
        return f"Field({', '.join(described)})"

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


def read_jars(jars: list[str]) -> dict[str, Json]:
    """The facts about the wanted messages, by name."""
    definitions = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if re.search(r"message/[A-Z]\w+\.json$", entry):
                    text = archive.read(entry).decode()
                    document = json.loads(re.sub(r"^\s*//.*$|(?<=[,{\[\]}\"])\s*//.*$", "", text, flags=re.MULTILINE))
                    name = re.sub("Response$", "Request", document["name"])
                    if name in WANTED:
                        definitions[document["name"]] = message_facts(document)
    return dict(sorted(definitions.items()))


def message_facts(document: Json) -> Json:
    facts = {fact: document[fact] for fact in MESSAGE_FACTS if fact in document}
    if "commonStructs" in document:
        facts["commonStructs"] = [
            {"name": struct["name"], "fields": field_facts(struct["fields"])} for struct in document["commonStructs"]
        ]
    return facts | {"fields": field_facts(document["fields"])}


def field_facts(fields: list[Json]) -> list[Json]:
    kept = []
    for field in fields:
        facts = {fact: field[fact] for fact in FIELD_FACTS if fact in field}
        if "fields" in field:
            facts["fields"] = field_facts(field["fields"])
        kept.append(facts)
    return kept


def render_definitions(definitions: dict[str, Json]) -> str:
    """JSON with a line for each field, so that a new version of Kafka shows as lines that changed."""
    messages = [_render_object(document, "  ") for document in definitions.values()]
    return "[\n" + ",\n".join(messages) + "\n]\n"


def _render_object(facts: Json, indent: str) -> str:
    nested = [name for name in ("commonStructs", "fields") if name in facts]
    plain = json.dumps({name: value for name, value in facts.items() if name not in nested})
    for name in nested:
        items = ",\n".join(_render_object(each, indent + "  ") for each in facts[name])
        content = f"[\n{items}\n{indent}]" if items else "[]"
        plain = f'{plain[:-1]}, "{name}": {content}}}'
    return indent + plain


def read_definitions() -> dict[str, Json]:
    return {document["name"]: document for document in json.loads(DEFINITIONS.read_text())}


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
        f'"""{name}: written by tools/generate_messages.py from Kafka\'s definitions. Do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        *(["from penstock.protocol.fields import Field"] if "Field(" in text else []),
        f"from penstock.protocol.message import {', '.join(imports)}",
    ]
    return "\n".join(head) + "\n" + text + "\n"


def render_package(definitions: dict[str, Json]) -> dict[str, str]:
    """The text of every module by the name of its file."""
    files = {"__init__.py": '"""Message classes, one module per API. Written by tools/generate_messages.py."""\n'}
    for name, document in definitions.items():
        if document["type"] == "response":
            continue
        base = name.removesuffix("Request")
        documents = [definitions[f"{base}Response"], document] if document["type"] == "request" else [document]
        files[f"{snake(base)}.py"] = render_module(base, documents)
    return files


def stale_files(files: dict[str, str]) -> list[str]:
    """Names of modules that are missing, differ, or should not be there."""
    present = {path.name: path.read_text() for path in OUT.glob("*.py")}
    return sorted(name for name in files.keys() | present.keys() if files.get(name) != present.get(name))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the message classes from Kafka's definitions.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a module is not current")
    parser.add_argument("--from", dest="jars", nargs="+", metavar="JAR", help="read the definitions from Kafka's jars")
    options = parser.parse_args(arguments)
    if options.jars:
        definitions = read_jars(options.jars)
        if missing := sorted(WANTED - definitions.keys()):
            parser.error(f"nothing is written: no jar of those given defines {', '.join(missing)}")
        DEFINITIONS.write_text(render_definitions(definitions))
    files = render_package(read_definitions())
    stale = stale_files(files)
    if options.check:
        if stale:
            print(f"stale in {OUT.name}/: {', '.join(stale)}; run tools/generate_messages.py", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        if name in files:
            (OUT / name).write_text(files[name])
        else:
            (OUT / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
