"""Every error that a caller of the registry can get: a code and a text, one function for each kind.

The code is Confluent's; its first three digits are the HTTP status. Clients match on parts of the texts ("Subject ..
not found", "Invalid schema", "is not a valid version id", "Schema being registered is incompatible with an earlier
schema"), so these parts stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence


class RegistryError(Exception):
    """A request that the registry refuses, or cannot serve now."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status: the first three digits of the code."""
        code = self.code
        while code > 999:
            code //= 10
        return code


class NotLeaderError(RegistryError):
    """This instance does not lead (any more), so it did not write. Another instance may."""

    def __init__(self, message: str = "This instance is not the leader") -> None:
        super().__init__(50004, message)


class StoreError(RegistryError):
    """The topic of the registry did not take the records, or the outcome is unknown."""

    def __init__(self, message: str = "Error in the backend data store") -> None:
        super().__init__(50001, message)


class StoreTimeoutError(RegistryError):
    """The topic of the registry did not answer in time."""

    def __init__(self, message: str = "The backend data store did not answer in time") -> None:
        super().__init__(50002, message)


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(detail: str = "") -> RegistryError:
    return RegistryError(40403, f"Schema {detail} not found" if detail else "Schema not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete it permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before it is permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete it permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before it is permanently deleted"
    )


def no_subject_level_config(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_level_mode(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def association_not_found(detail: str) -> RegistryError:
    return RegistryError(40410, f"No association found: {detail}")


def incompatible_schema(messages: Sequence[str]) -> RegistryError:
    details = f", details: [{', '.join(messages)}]" if messages else ""
    return RegistryError(409, f"Schema being registered is incompatible with an earlier schema{details}")


def invalid_schema(detail: str) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {detail}")


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_compatibility_level(level: str) -> RegistryError:
    return RegistryError(
        42203,
        f"Invalid compatibility level '{level}'. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_config(detail: str) -> RegistryError:
    return RegistryError(42203, f"Invalid config: {detail}")


def invalid_mode(mode: str) -> RegistryError:
    return RegistryError(
        42204, f"Invalid mode '{mode}'. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD"
    )


def operation_not_permitted(detail: str) -> RegistryError:
    return RegistryError(42205, detail)


def reference_exists(detail: str) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to the schema {detail}.")


def id_does_not_match(detail: str) -> RegistryError:
    return RegistryError(42207, detail)


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject.")


def schema_too_large(detail: str) -> RegistryError:
    return RegistryError(42209, detail)


def invalid_rule_set(detail: str) -> RegistryError:
    return RegistryError(42210, f"Invalid rule set: {detail}")


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(42211, f"The specified context '{context}' is not empty.")


def invalid_association(detail: str) -> RegistryError:
    return RegistryError(42212, f"Invalid association: {detail}")
