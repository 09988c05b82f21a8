"""What is asked of a registry now and then: lists, verdicts, deletions, levels and modes. Nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from penstock.client.registry.errors import RegistryAnswerError
from penstock.client.registry.model import NewSchema, RegisteredSchema, Verdict
from penstock.client.registry.transport import RegistryTransport, path_of

Value = TypeVar("Value")


def read_answer(read: Callable[[], Value]) -> Value:
    """What an answer says, or an error that says that it is none of a registry."""
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise RegistryAnswerError(200, 200, "the answer is not that of a schema registry") from None


class RegistryAdministration:
    def __init__(self, transport: RegistryTransport) -> None:
        self._transport = transport

    def subjects(self, prefix: str | None = None, *, deleted: bool = False) -> list[str]:
        """`:*:` as a prefix: of all contexts."""
        answer = self._transport.get("/subjects", {"subjectPrefix": prefix, "deleted": deleted})
        return read_answer(lambda: [str(each) for each in answer])

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Live ones, or with `deleted` those as well that are softly deleted."""
        answer = self._transport.get(path_of("subjects", subject, "versions"), {"deleted": deleted})
        return read_answer(lambda: [int(each) for each in answer])

    def deleted_versions(self, subject: str) -> set[int]:
        """Those that are softly deleted alone. Not every registry can be asked for them, but for the others."""
        try:
            live = self.versions(subject)
        except RegistryAnswerError as error:
            if not error.is_not_found:
                raise
            live = []
        return set(self.versions(subject, deleted=True)) - set(live)

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> RegisteredSchema:
        """Also a deleted one, if asked for."""
        answer = self._transport.get(path_of("subjects", subject, "versions", version), {"deleted": deleted})
        return read_answer(lambda: RegisteredSchema.of_json(answer))

    def referenced_by(self, subject: str, version: int | str) -> list[int]:
        answer = self._transport.get(path_of("subjects", subject, "versions", version, "referencedby"))
        return read_answer(lambda: [int(each) for each in answer])

    def check(
        self, subject: str, schema: NewSchema, version: int | str | None = None, *, normalize: bool = False
    ) -> Verdict:
        """Against one version, or against all that a registration would be compared with."""
        path = path_of("compatibility", "subjects", subject, "versions", *(() if version is None else (version,)))
        answer = self._transport.post(path, schema.to_json(), {"verbose": True, "normalize": normalize})
        return read_answer(
            lambda: Verdict(bool(answer["is_compatible"]), tuple(str(each) for each in answer.get("messages") or ()))
        )

    def register_as(self, subject: str, schema: NewSchema, schema_id: int, version: int) -> int:
        """With an id and a version of the caller's, which the mode IMPORT alone allows."""
        body = {**schema.to_json(), "id": schema_id, "version": version}
        answer = self._transport.post(path_of("subjects", subject, "versions"), body)
        return read_answer(lambda: int(answer["id"]))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        answer = self._transport.delete(path_of("subjects", subject), {"permanent": permanent})
        return read_answer(lambda: [int(each) for each in answer])

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        path = path_of("subjects", subject, "versions", version)
        answer = self._transport.delete(path, {"permanent": permanent})
        return read_answer(lambda: int(answer))

    def config(self, subject: str | None = None, *, with_default: bool = False) -> dict[str, Any]:
        """With `compatibilityLevel`. Of a subject without one: 40408, unless `with_default`."""
        answer = self._transport.get(_scope("config", subject), {"defaultToGlobal": with_default})
        return read_answer(lambda: dict(answer))

    def set_config(self, config: Mapping[str, Any], subject: str | None = None) -> dict[str, Any]:
        """With `compatibility`, as the API has it."""
        answer = self._transport.put(_scope("config", subject), dict(config))
        return read_answer(lambda: dict(answer))

    def delete_config(self, subject: str | None = None) -> dict[str, Any]:
        answer = self._transport.delete(_scope("config", subject))
        return read_answer(lambda: dict(answer))

    def mode(self, subject: str | None = None, *, with_default: bool = False) -> str:
        answer = self._transport.get(_scope("mode", subject), {"defaultToGlobal": with_default})
        return read_answer(lambda: str(answer["mode"]))

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> str:
        answer = self._transport.put(_scope("mode", subject), {"mode": mode}, {"force": force})
        return read_answer(lambda: str(answer["mode"]))

    def delete_mode(self, subject: str | None = None) -> None:
        self._transport.delete(_scope("mode", subject))

    def contexts(self) -> list[str]:
        answer = self._transport.get("/contexts")
        return read_answer(lambda: [str(each) for each in answer])


def _scope(what: str, subject: str | None) -> str:
    return path_of(what) if subject is None else path_of(what, subject)
