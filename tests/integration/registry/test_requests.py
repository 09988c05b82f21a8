"""The API by hand: content types, bodies that are none, paths that mislead, contexts, errors in one form."""

from __future__ import annotations

import json

import pytest
import requests

from penstock.registry.api.answers import MEDIA_TYPE, MEDIA_TYPES
from tests.integration.registry.serving import PATIENCE_S, Served

STRING = {"schema": '"string"'}
NAMED = {
    "google/type/money.proto": "google.type.Money",
    "google/type/datetime.proto": "google.type.DateTime",
    "confluent/type/variant.proto": "confluent.type.Variant",
}


def send(
    registry: Served, data: bytes, headers: dict[str, str], path: str = "/subjects/bodies/versions"
) -> tuple[int, int]:
    answer = requests.post(registry.url + path, data=data, headers=headers, timeout=PATIENCE_S)
    return answer.status_code, answer.json().get("error_code", 0)


@pytest.mark.parametrize(
    "kind", [*MEDIA_TYPES, f"{MEDIA_TYPE}; charset=utf-8", "Application/JSON", "application/octet-stream"]
)
def test_body_is_read_when_its_type_is_one_of_confluents(registry: Served, kind: str) -> None:
    assert send(registry, json.dumps(STRING).encode(), {"content-type": kind}) == (200, 0)


def test_body_is_read_when_it_has_no_type(registry: Served) -> None:
    assert send(registry, json.dumps(STRING).encode(), {}) == (200, 0)


@pytest.mark.parametrize(
    ("data", "headers", "code"),
    [
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {"content-type": "application/xml"}, 415),
        (b"{}", {"content-encoding": "gzip"}, 415),
        (b"{", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b'{"schema": "\xff"}', {}, 400),
        (b'{"schema": "\\"int\\"", "metadata": {"properties": {"\xff": ""}}}', {}, 400),
        (b'{"schema": "\\ud800"}', {}, 400),
        (b'{"schema": "\\"int\\"", "id": NaN}', {}, 400),
        (b'{"schema": "\\"int\\"", "id": 1e400}', {}, 400),
        (b'{"schema": "\\"int\\"", "metadata": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, {}, 400),
        (b"[]", {}, 400),
        (b'{"schema": {"type": "string"}}', {}, 400),
        (b'{"schema": "\\"int\\"", "references": [1]}', {}, 400),
        (b'{"schema": "\\"int\\"", "id": 99999999999}', {}, 400),
        (b'{"schema": "\\"int\\"", "metadata": {"tags": 5}}', {}, 400),
        (b"[" * 200_000, {}, 400),
        (b"", {}, 422),
        (b"null", {}, 422),
        (b"{}", {}, 42201),
        (b'{"schema": "\\"int\\"", "schemaType": "XML"}', {}, 42201),
        (b'{"schema": "' + b"x" * (2 << 20) + b'"}', {}, 413),
    ],
)
def test_body_is_refused_with_confluents_codes_when_it_cannot_be_used(
    registry: Served, data: bytes, headers: dict[str, str], code: int
) -> None:
    assert send(registry, data, {"content-type": "application/json", **headers}) == (int(str(code)[:3]), code)


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "/config"), ("PUT", "/mode"), ("POST", "/subjects/bodies/versions/1/tags")]
)
def test_every_body_is_refused_with_a_sentence_when_a_text_in_it_is_no_utf_8(
    registry: Served, method: str, path: str
) -> None:
    body = b'{"compatibility": "\xff", "mode": "\xff", "tagsToAdd": [{"tags": ["\xff"]}]}'
    answer = requests.request(method, registry.url + path, data=body, timeout=PATIENCE_S)
    assert answer.status_code == 400
    assert answer.json() == {"error_code": 400, "message": "The request is not readable: a text in it is no UTF-8"}


def test_answers_have_the_registrys_type_when_all_is_well_and_when_not(registry: Served) -> None:
    for path in ("/subjects", "/nothing", "/schemas/ids/99999", "/schemas/ids/x", "/schemas/types"):
        assert requests.get(registry.url + path, timeout=PATIENCE_S).headers["content-type"] == MEDIA_TYPE
    assert registry.get("/nothing").body == {"error_code": 404, "message": "Not Found"}
    assert registry.delete("/subjects").body == {"error_code": 405, "message": "Method Not Allowed"}


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        ("*/*", MEDIA_TYPE),
        ("application/*", MEDIA_TYPE),
        (", ".join(reversed(MEDIA_TYPES)), MEDIA_TYPE),
        ("text/html, application/json", "application/json"),
        ("application/vnd.schemaregistry+json;q=0.5, application/json;q=0.8", "application/json"),
        ("application/vnd.schemaregistry.v1+json;q=0, */*", "application/vnd.schemaregistry+json"),
        ("Application/VND.schemaregistry+json", "application/vnd.schemaregistry+json"),
    ],
)
def test_answer_has_the_type_that_the_caller_likes_best_when_it_is_one_of_ours(
    registry: Served, subject: str, accept: str, answered: str
) -> None:
    schema_id = registry.post(f"/subjects/{subject}/versions", STRING).body["id"]  # type: ignore[index]
    for path in (f"/schemas/ids/{schema_id}", f"/schemas/ids/{schema_id}", "/subjects", "/schemas/ids/99999"):
        answer = requests.get(registry.url + path, headers={"accept": accept}, timeout=PATIENCE_S)
        assert answer.headers["content-type"] == answered
        assert answer.json()


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;q=0", "application/xml, text/*", ",".join(["a"] * 99)]
)
def test_nothing_is_done_when_the_caller_accepts_no_type_of_ours(registry: Served, subject: str, accept: str) -> None:
    headers = {"accept": accept}
    answer = registry.post(f"/subjects/{subject}/versions", STRING, headers=headers)
    assert (answer.status, answer.body) == (406, {"error_code": 406, "message": "HTTP 406 Not Acceptable"})
    assert registry.get(f"/subjects/{subject}/versions").status == 404
    assert registry.get("/readyz", headers=headers).status == 200


def test_answer_by_id_names_a_version_when_a_subject_is_asked_about(registry: Served, subject: str) -> None:
    other = {"schema": json.dumps({"type": "fixed", "name": subject.replace("-", "_"), "size": 1})}
    registry.put(f"/config/{subject}", {"compatibility": "NONE"})
    registry.post(f"/subjects/{subject}/versions", STRING)
    found = registry.post(f"/subjects/{subject}/versions", other).body["id"]  # type: ignore[index]
    registry.post(f"/subjects/{subject}-twin/versions", other)

    def told(query: str) -> tuple[object, object, object]:
        body = registry.get(f"/schemas/ids/{found}{query}").body
        assert isinstance(body, dict)
        return body.get("subject"), body.get("version"), body.get("deleted")

    assert told("") == (None, None, None)
    assert told(f"?subject={subject}") == (subject, 2, None)
    assert told(f"?subject={subject}-twin") == (f"{subject}-twin", 1, None)
    assert told("?subject=unknown") == (subject, 2, None)
    registry.delete(f"/subjects/{subject}/versions/2")
    assert told(f"?subject={subject}") == (subject, 2, True)
    assert told("?subject=unknown") == (f"{subject}-twin", 1, None)


def test_subject_is_not_blocked_when_somebody_registers_what_nobody_can_compare(registry: Served, subject: str) -> None:
    inner = {f"d{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(100)}
    deep = {"$ref": "#/$defs/d0", "$defs": {**inner, "d100": {"type": "string"}}}
    refused = registry.post(f"/subjects/{subject}/versions", {"schemaType": "JSON", "schema": json.dumps(deep)})
    assert (refused.status, refused.code) == (422, 42201), refused
    for text in ('{"type":"object"}', '{"type":"object","title":"a"}'):
        assert registry.post(f"/subjects/{subject}/versions", {"schemaType": "JSON", "schema": text}).status == 200


@pytest.mark.parametrize("name", NAMED)
def test_file_that_everybody_has_is_imported_when_nobody_refers_to_it(
    registry: Served, subject: str, name: str
) -> None:
    text = f'syntax = "proto3"; import "{name}"; message M {{ {NAMED[name]} a = 1; }}'
    answer = registry.post(f"/subjects/{subject}/versions", {"schemaType": "PROTOBUF", "schema": text})
    assert answer.status == 200, answer
    assert registry.get(f"/subjects/{subject}/versions/1?format=serialized").status == 200


@pytest.mark.parametrize("path", ["/schemas/ids/x", "/schemas/ids/99999999999", "/subjects?limit=x"])
def test_page_is_not_there_when_a_number_is_none(registry: Served, path: str) -> None:
    answer = registry.get(path)
    assert (answer.status, answer.code) == (404, 404)


def test_slashes_are_part_of_the_name_when_they_are_encoded(registry: Served) -> None:
    names = ("a/b", "../x", "a//b", "c/versions", "%2F", "..", "a b+c", "é", "/")
    encoded = ("a%2Fb", "..%2fx", "a%2F%2Fb", "c%2Fversions", "%252F", None, "a%20b+c", "%C3%A9", "%2F")
    for name, path in zip(names, encoded, strict=True):
        if path is None:  # two dots alone are no segment
            assert registry.post("/subjects/%2e%2e/versions", STRING).status == 404
            continue
        assert registry.post(f"/subjects/{path}/versions", STRING).status == 200
        found = registry.get(f"/subjects/{path}/versions/1").body
        assert isinstance(found, dict)
        assert found["subject"] == name


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/../config",
        "/subjects/%2e%2e/config",
        "/subjects/x/../../config",
        "//config",
        "/config//",
        "/config%2f",
        "/config%00",
        "/%2e/config",
        "/contexts/:.c:/../config",
        "/contexts/%2e%2e/config",
        "/contexts/x/config",
        "/contexts//config",
    ],
)
def test_no_other_page_is_reached_when_a_path_is_written_to_mislead(registry: Served, path: str) -> None:
    assert registry.get(path).status == 404


def test_subject_is_refused_when_its_name_cannot_be_kept(registry: Served) -> None:
    for path in ("%00", "a%0Ab", "__GLOBAL", "__EMPTY", ":.c:"):
        answer = registry.post(f"/subjects/{path}/versions", STRING)
        assert (answer.status, answer.code) == (422, 42208), path


def test_names_are_in_a_context_when_the_path_begins_with_one(registry: Served, subject: str) -> None:
    base = f"/contexts/:.{subject}:"
    schema = {"schema": '{"type": "enum", "name": "E", "symbols": ["A"]}'}
    made = registry.post(f"{base}/subjects/values/versions", schema).body
    assert isinstance(made, dict)
    full = f":.{subject}:values"
    assert made["id"] == 1  # ids count from one in every context
    assert registry.get(f"{base}/subjects").body == [full]
    assert registry.get(f"/subjects?subjectPrefix=:.{subject}:").body == [full]
    assert full not in (registry.get("/subjects").body or ())  # type: ignore[operator]
    assert full in (registry.get("/subjects?subjectPrefix=:*:").body or ())  # type: ignore[operator]
    assert (
        registry.get(f"/subjects/{full}/versions").body == registry.get(f"{base}/subjects/values/versions").body == [1]
    )
    assert registry.get(f"{base}/schemas/ids/1").body == registry.get(f"/schemas/ids/1?subject=:.{subject}:").body
    assert registry.get(f"{base}/schemas/ids/1/subjects").body == [full]
    assert registry.put(f"{base}/config", {"compatibility": "NONE"}).status == 200
    assert registry.get(f"/config/:.{subject}:").body == registry.get(f"{base}/config").body
    assert registry.get("/config").body != registry.get(f"{base}/config").body
    assert registry.get(f"{base}/associations/resources/-/orders").body == []
    assert registry.get(f"/contexts/.{subject}/subjects").body == [full]


def test_lists_are_cut_when_a_part_is_asked_for(registry: Served, subject: str) -> None:
    for number in range(4):
        registry.post(f"/subjects/{subject}-{number}/versions", STRING)
    path = f"/subjects?subjectPrefix={subject}-"
    assert registry.get(f"{path}&offset=1&limit=2").body == [f"{subject}-1", f"{subject}-2"]
    assert registry.get(f"{path}&limit=-1&unknown=x").body == [f"{subject}-{number}" for number in range(4)]
    listed = registry.get(f"/schemas?subjectPrefix={subject}-&limit=1&LATESTONLY=1").body
    assert isinstance(listed, list)
    assert [each["subject"] for each in listed] == [f"{subject}-0"]


def test_flags_count_when_they_are_true_in_any_case(registry: Served, subject: str) -> None:
    registry.post(f"/subjects/{subject}/versions", STRING)
    assert registry.delete(f"/subjects/{subject}?permanent=yes").body == [1]  # softly
    assert registry.get(f"/subjects/{subject}/versions?deleted=TRUE").body == [1]
    assert registry.get(f"/subjects/{subject}/versions?deleted=1").status == 404
    assert registry.get(f"/subjects/{subject}/versions?deletedOnly=true&deletedAsNegative=True").body == [-1]
    assert registry.delete(f"/subjects/{subject}?permanent=True").body == [1]


def test_text_stands_alone_when_it_is_asked_for(registry: Served, subject: str) -> None:
    made = registry.post(f"/subjects/{subject}/versions", STRING).body
    assert isinstance(made, dict)
    for path in (f"/subjects/{subject}/versions/latest/schema", f"/schemas/ids/{made['id']}/schema"):
        assert requests.get(registry.url + path, timeout=PATIENCE_S).text == '"string"'


def test_tags_are_found_when_they_were_added(registry: Served, subject: str) -> None:
    schema = {"schema": json.dumps({"type": "record", "name": "T", "fields": [{"name": "f", "type": "string"}]})}
    registry.post(f"/subjects/{subject}/versions", schema)
    tags = [{"schemaEntity": {"entityPath": "T.f", "entityType": "sr_field"}, "tags": ["PII"]}]
    made = registry.post(f"/subjects/{subject}/versions/1/tags", {"tagsToAdd": tags}).body
    assert isinstance(made, dict)
    assert (made["version"], "PII" in made["schema"]) == (2, True)
    found = registry.get(f"/subjects/{subject}/versions/latest?findTags=*").body
    assert isinstance(found, dict)
    assert found["schemaTags"] == tags
    assert "schemaTags" not in (registry.get(f"/subjects/{subject}/versions/latest").body or ())  # type: ignore[operator]


def test_id_is_unknown_when_all_that_had_it_is_deleted_for_good(registry: Served, subject: str) -> None:
    schema = {"schema": json.dumps({"type": "fixed", "name": "F", "size": 1234})}
    made = registry.post(f"/subjects/{subject}/versions", schema).body
    assert isinstance(made, dict)
    path = f"/schemas/ids/{made['id']}"
    first = registry.get(path).body
    assert isinstance(first, dict)
    assert first == registry.get(path).body == registry.get(path + "?subject=").body
    assert registry.get(path + "?fetchMaxId=true").body == {**first, "maxId": made["id"]}
    registry.delete(f"/subjects/{subject}")
    assert registry.get(path).status == 200
    registry.delete(f"/subjects/{subject}?permanent=true")
    answer = registry.get(path)
    assert (answer.status, answer.code) == (404, 40403)


def test_config_is_called_compatibility_when_it_is_changed_alone(registry: Served, subject: str) -> None:
    change = {"compatibility": "full", "normalize": True, "compatibilityPolicy": "lenient", "unknown": 1}
    changed = {"compatibility": "FULL", "normalize": True, "compatibilityPolicy": "LENIENT"}
    kept = {"compatibilityLevel": "FULL", "normalize": True, "compatibilityPolicy": "LENIENT"}
    assert registry.put(f"/config/{subject}", change).body == changed
    assert registry.get(f"/config/{subject}").body == kept
    registry.put(f"/config/{subject}", {"normalize": None})
    assert registry.delete(f"/config/{subject}").body == {
        "compatibilityLevel": "FULL",
        "compatibilityPolicy": "LENIENT",
    }
    assert registry.delete(f"/config/{subject}").code == 40401
    assert registry.get(f"/config/{subject}").code == 40408
    assert registry.get(f"/config/{subject}?defaultToGlobal=TRUE").body == registry.get("/config").body


def test_registry_tells_of_itself_when_asked(registry: Served) -> None:
    assert registry.get("/").body == {}
    assert registry.get("/v1/metadata/version").body == {"version": "1.2.3"}
    cluster = {"kafka-cluster": "a-cluster", "schema-registry-cluster": "schema-registry"}
    assert registry.get("/v1/metadata/id").body == {"id": "", "scope": {"path": [], "clusters": cluster}}
    assert registry.get("/v1/metadata/deployment").body == {"attributes": ["opensource"]}
    assert registry.get("/healthz").body == registry.get("/livez").body == {"status": "ok"}
    document = registry.get("/openapi.json").body
    assert isinstance(document, dict)
    assert document["openapi"] == "3.0.3"


def test_head_has_no_body_when_get_has_one(registry: Served) -> None:
    answer = registry.ask("HEAD", "/subjects")
    assert answer == (200, None)


def test_list_of_schemas_reads_the_same_when_it_is_large(registry: Served, subject: str) -> None:
    documents = [json.dumps({"type": "string", "doc": "x" * 600_000 + str(number)}) for number in range(2)]
    for number, text in enumerate(documents):
        assert registry.post(f"/subjects/{subject}-{number}/versions", {"schema": text}).status == 200
    found = registry.get(f"/schemas?subjectPrefix={subject}-").body
    assert isinstance(found, list)
    assert found == [registry.get(f"/subjects/{subject}-{number}/versions/1").body for number in range(2)]
