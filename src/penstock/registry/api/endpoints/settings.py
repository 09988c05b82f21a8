"""Config and mode: of a subject, of a context, or of all."""

from __future__ import annotations

from starlette.responses import Response

from penstock.registry.api.answers import answer, changed_document
from penstock.registry.api.bodies import read_config, read_mode
from penstock.registry.api.calls import Call
from penstock.registry.api.operation import Operation
from penstock.registry.api.rights import Right
from penstock.registry.documents import config_to_json
from penstock.registry.names import beside


async def get_config(call: Call) -> Response:
    config = await call.service.settings.config(call.subject, default_to_global=call.query.flag("defaultToGlobal"))
    return answer(config_to_json(config))


async def put_config(call: Call) -> Response:
    request = await read_config(call.request)
    alias = request.changes.get("alias")
    if alias and call.is_limited:
        # Whoever names this subject means the other one from now on, also in registering.
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


def _config(path: str, suffix: str, words: str) -> tuple[Operation, ...]:
    """Of all subjects, or of the one that the path names."""
    return (
        Operation(
            "GET",
            f"/config{path}",
            f"Get{suffix}Config",
            get_config,
            f"The config {words}.",
            "Config",
            ("defaultToGlobal",),
            "",
            (40408,) if path else (),
            Right.READ_CONFIG,
        ),
        Operation(
            "PUT",
            f"/config{path}",
            f"Change{suffix}Config",
            put_config,
            f"Changes what is named of the config {words}; null unsets it.",
            "ConfigChange",
            (),
            "ConfigChange",
            (42203, 42205, 42210),
            Right.WRITE_CONFIG,
            is_change=True,
        ),
        Operation(
            "DELETE",
            f"/config{path}",
            f"Delete{suffix}Config",
            delete_config,
            f"Removes the config {words}, and tells what it was.",
            "Config",
            (),
            "",
            (40401, 42205) if path else (42205,),
            Right.WRITE_CONFIG,
            is_change=True,
        ),
    )


def _mode(path: str, suffix: str, words: str) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            f"/mode{path}",
            f"Get{suffix}Mode",
            get_mode,
            f"The mode {words}.",
            "Mode",
            ("defaultToGlobal",),
            "",
            (40409,) if path else (),
            Right.READ_CONFIG,
        ),
        Operation(
            "PUT",
            f"/mode{path}",
            f"Change{suffix}Mode",
            put_mode,
            f"Changes the mode {words}.",
            "Mode",
            ("force",),
            "Mode",
            (42204, 42205),
            Right.WRITE_CONFIG,
            is_change=True,
        ),
        Operation(
            "DELETE",
            f"/mode{path}",
            f"Delete{suffix}Mode",
            delete_mode,
            f"Removes the mode {words}, and tells what it was.",
            "Mode",
            ("recursive",),
            "",
            (40401, 42205) if path else (42205,),
            Right.WRITE_CONFIG,
            is_change=True,
        ),
    )


OPERATIONS = tuple(
    operation
    for family in (_config, _mode)
    for scope in (("", "Global", "of all subjects that have none"), ("/{subject}", "", "of the subject"))
    for operation in family(*scope)
)
