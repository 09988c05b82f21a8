"""Config and mode: of a subject, of a context, or of all."""

from __future__ import annotations

from starlette.responses import Response

from penstock.http.operations import HttpOperation
from penstock.registry.api.answers import answer, changed_document
from penstock.registry.api.bodies import read_config, read_mode
from penstock.registry.api.calls import Call, Handler
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import parameters
from penstock.registry.documents import config_to_json
from penstock.registry.names import beside


async def get_config(call: Call) -> Response:
    config = await call.service.settings.config(call.subject, default_to_global=call.query.flag("defaultToGlobal"))
    return answer(config_to_json(config))


async def put_config(call: Call) -> Response:
    request = await read_config(call.request)
    alias = request.changes.get("alias")
    if alias and call.is_limited:
        # From now on this subject's name means the other subject, also for registrations.
        call.check(Right.WRITE, beside(call.subject, str(alias)))
    changed = changed_document(await call.service.settings.set_config(request, call.subject))
    call.details |= {name: value for name, value in changed.items() if isinstance(value, str | bool)}
    return answer(changed)


async def delete_config(call: Call) -> Response:
    return answer(config_to_json(await call.service.settings.delete_config(call.subject)))


async def get_mode(call: Call) -> Response:
    mode = await call.service.settings.mode(call.subject, default_to_global=call.query.flag("defaultToGlobal"))
    return answer({"mode": mode.value})


async def put_mode(call: Call) -> Response:
    wanted = await read_mode(call.request)
    mode = await call.service.settings.set_mode(wanted, call.subject, force=call.query.flag("force"))
    call.details["mode"] = mode.value
    return answer({"mode": mode.value})


async def delete_mode(call: Call) -> Response:
    mode = await call.service.settings.delete_mode(call.subject, recursive=call.query.flag("recursive"))
    return answer({"mode": mode.value})


def _config(path: str, suffix: str, words: str) -> tuple[HttpOperation[Handler], ...]:
    """For all subjects, or for the subject of the path."""
    return (
        HttpOperation(
            "GET",
            f"/config{path}",
            f"Get{suffix}Config",
            f"The config {words}.",
            get_config,
            "Config",
            query=parameters("defaultToGlobal"),
            errors=(40408,) if path else (),
            right=Right.READ_CONFIG,
        ),
        HttpOperation(
            "PUT",
            f"/config{path}",
            f"Change{suffix}Config",
            f"Changes what is named of the config {words}; null unsets it.",
            put_config,
            "ConfigChange",
            "ConfigChange",
            errors=(42203, 42205, 42210),
            right=Right.WRITE_CONFIG,
        ),
        HttpOperation(
            "DELETE",
            f"/config{path}",
            f"Delete{suffix}Config",
            f"Removes the config {words}, and tells what it was.",
            delete_config,
            "Config",
            errors=(40401, 42205) if path else (42205,),
            right=Right.WRITE_CONFIG,
        ),
    )


def _mode(path: str, suffix: str, words: str) -> tuple[HttpOperation[Handler], ...]:
    return (
        HttpOperation(
            "GET",
            f"/mode{path}",
            f"Get{suffix}Mode",
            f"The mode {words}.",
            get_mode,
            "Mode",
            query=parameters("defaultToGlobal"),
            errors=(40409,) if path else (),
            right=Right.READ_CONFIG,
        ),
        HttpOperation(
            "PUT",
            f"/mode{path}",
            f"Change{suffix}Mode",
            f"Changes the mode {words}.",
            put_mode,
            "Mode",
            "Mode",
            query=parameters("force"),
            errors=(42204, 42205),
            right=Right.WRITE_CONFIG,
        ),
        HttpOperation(
            "DELETE",
            f"/mode{path}",
            f"Delete{suffix}Mode",
            f"Removes the mode {words}, and tells what it was.",
            delete_mode,
            "Mode",
            query=parameters("recursive"),
            errors=(40401, 42205) if path else (42205,),
            right=Right.WRITE_CONFIG,
        ),
    )


OPERATIONS: tuple[HttpOperation[Handler], ...] = tuple(
    operation
    for family in (_config, _mode)
    for scope in (("", "Global", "of all subjects that have none"), ("/{subject}", "", "of the subject"))
    for operation in family(*scope)
)
