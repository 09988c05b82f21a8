"""The questions whose answers a client keeps, each put to the registry anew."""

from __future__ import annotations

from penstock.client.registry.administration import read_answer
from penstock.client.registry.errors import RegistryAnswerError
from penstock.client.registry.model import NewSchema, RegisteredSchema
from penstock.client.registry.transport import RegistryTransport, path_of


class Queries:
    def __init__(self, transport: RegistryTransport) -> None:
        self._transport = transport

    def by_id(self, schema_id: int, subject: str | None) -> RegisteredSchema:
        answer = self._transport.get(path_of("schemas", "ids", schema_id), {"subject": subject})
        return read_answer(lambda: RegisteredSchema.of_json(answer, schema_id=schema_id))

    def by_guid(self, guid: str) -> RegisteredSchema:
        answer = self._transport.get(path_of("schemas", "guids", guid))
        return read_answer(lambda: RegisteredSchema.of_json({**answer, "guid": guid.lower()}))

    def membership(self, schema_id: int, subject: str) -> bool:
        """True, or 40403."""
        path = path_of("schemas", "ids", schema_id, "versions")
        answer = self._transport.get(path, {"subject": subject, "deleted": True})
        if not read_answer(lambda: any(each["subject"] == subject for each in answer)):
            raise RegistryAnswerError(404, 40403, f"Schema {schema_id} is not in subject {subject}")
        return True

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        answer = self._transport.get(path_of("subjects", subject, "versions", version))
        return read_answer(lambda: RegisteredSchema.of_json(answer))

    def registration(self, subject: str, schema: NewSchema, normalize: bool) -> RegisteredSchema:
        path = path_of("subjects", subject, "versions")
        answer = self._transport.post(path, schema.to_json(), {"normalize": normalize})
        # What was sent, not what came back: older registries give the id alone.
        given = {**schema.to_json(), "subject": subject}
        return read_answer(lambda: RegisteredSchema.of_json({**answer, **given}, schema_id=int(answer["id"])))

    def lookup(self, subject: str, schema: NewSchema, normalize: bool) -> RegisteredSchema:
        answer = self._transport.post(path_of("subjects", subject), schema.to_json(), {"normalize": normalize})
        return read_answer(lambda: RegisteredSchema.of_json(answer))

    def association(self, topic: str, is_key: bool) -> tuple[str | None]:
        query = {"resourceType": "topic", "associationType": "key" if is_key else "value"}
        try:
            answer = self._transport.get(path_of("associations", "resources", "-", topic), query)
        except RegistryAnswerError as error:
            if error.is_not_found:  # also of a registry that does not know associations
                return (None,)
            raise
        return read_answer(lambda: (str(answer[0]["subject"]),) if answer else (None,))
