"""Contexts, associations, and the registry's own metadata."""

from __future__ import annotations

from starlette.responses import Response

from penstock.http.operations import HttpOperation
from penstock.registry.api.answers import answer
from penstock.registry.api.calls import Call, Handler
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import PAGE, parameters
from penstock.registry.names import DEFAULT_CONTEXT, EVERY_CONTEXT, context_of
from penstock.registry.operations.lookups import page_of


async def get_root(_: Call) -> Response:
    return answer({})


async def get_health(call: Call) -> Response:
    """Strangers get a word and a status, as from the broker's listener."""
    reason = call.api.why_not_ready()
    if not reason:
        return answer({"status": "ok"})
    may_know = not call.is_limited or call.caller.principal
    return answer({"status": "unavailable", **({"reasons": [reason]} if may_know else {})}, 503)


async def get_life(_: Call) -> Response:
    return answer({"status": "ok"})


async def list_contexts(call: Call) -> Response:
    prefix, page = call.query.text("contextPrefix"), call.query.page()
    if not call.is_limited:
        return answer(await call.service.contexts.names(prefix, page=page))
    names = await call.service.subjects.names(EVERY_CONTEXT)
    readable = {DEFAULT_CONTEXT, *map(context_of, call.readable(names))}
    return answer(page_of([each for each in await call.service.contexts.names(prefix) if each in readable], page))


async def delete_context(call: Call) -> Response:
    context = call.context
    call.details["context"] = context
    await call.service.contexts.delete(context)
    return Response(status_code=204)


async def get_cluster(call: Call) -> Response:
    identity = call.api.identity
    clusters = {"kafka-cluster": identity.kafka_cluster_id, "schema-registry-cluster": identity.group_id}
    return answer({"id": "", "scope": {"path": [], "clusters": clusters}})


async def get_release(call: Call) -> Response:
    return answer({"version": call.api.identity.version})


async def get_deployment(_: Call) -> Response:
    return answer({"attributes": ["opensource"]})


async def list_associations_by_name(call: Call) -> Response:
    named = call.request.path_params
    return answer(await call.service.associations.by_resource_name(named["namespace"], named["resource"]))


async def list_associations_by_id(call: Call) -> Response:
    return answer(await call.service.associations.by_resource_id(call.request.path_params["resource"]))


async def list_associations_of_subject(call: Call) -> Response:
    return answer(await call.service.associations.by_subject(call.subject))


async def change_associations(call: Call) -> Response:
    await call.service.associations.change()
    return answer({})


async def delete_associations(call: Call) -> Response:
    await call.service.associations.delete(call.request.path_params["resource"])
    return Response(status_code=204)


_CONTEXTS = (
    HttpOperation(
        "GET",
        "/contexts",
        "ListContexts",
        "The contexts; the default one is `.`.",
        list_contexts,
        "Names",
        query=parameters("contextPrefix", *PAGE),
    ),
    HttpOperation(
        "DELETE",
        "/contexts/{context}",
        "DeleteContext",
        "Forgets a context that is empty.",
        delete_context,
        errors=(42211,),
        right=Right.ADMIN,
    ),
)

_ASSOCIATIONS = (
    HttpOperation(
        "GET",
        "/associations/resources/{namespace}/{resource}",
        "ListAssociationsByName",
        "Subjects that a topic is associated with. None are kept: serializers take the topic's name for the subject.",
        list_associations_by_name,
        "Associations",
    ),
    HttpOperation(
        "GET",
        "/associations/resources/{resource}",
        "ListAssociationsById",
        "Subjects that a topic is associated with, by its id: none.",
        list_associations_by_id,
        "Associations",
    ),
    HttpOperation(
        "GET",
        "/associations/subjects/{subject}",
        "ListAssociationsOfSubject",
        "Topics that are associated with the subject: none.",
        list_associations_of_subject,
        "Associations",
        right=Right.READ,
    ),
    *(
        HttpOperation(
            method,
            "/associations",
            f"{name}Associations",
            "Refused: associations are not kept.",
            change_associations,
            "Nothing",
            errors=(42212,),
        )
        for method, name in (("POST", "Create"), ("PUT", "Change"))
    ),
    HttpOperation(
        "DELETE",
        "/associations/resources/{resource}",
        "DeleteAssociations",
        "Refused: there are none.",
        delete_associations,
        errors=(40410,),
    ),
)

_REGISTRY = (
    HttpOperation("GET", "/", "GetRoot", "An empty object: the registry is there.", get_root, "Nothing"),
    HttpOperation(
        "GET", "/v1/metadata/id", "GetClusterId", "Which cluster keeps the schemas.", get_cluster, "ClusterId"
    ),
    HttpOperation("GET", "/v1/metadata/version", "GetRelease", "The release of this registry.", get_release, "Release"),
    HttpOperation(
        "GET",
        "/v1/metadata/deployment",
        "GetDeployment",
        "What kind of registry this is.",
        get_deployment,
        "Deployment",
    ),
    *(
        HttpOperation(
            "GET",
            path,
            name,
            words,
            handle,
            "Health",
            errors=errors,
            is_public=True,
        )
        for path, name, handle, words, errors in (
            ("/healthz", "GetHealth", get_health, "Whether requests can be served.", (503,)),
            ("/readyz", "GetReadiness", get_health, "Whether requests can be served.", (503,)),
            ("/livez", "GetLife", get_life, "Whether the process answers.", ()),
        )
    ),
)

OPERATIONS: tuple[HttpOperation[Handler], ...] = (*_CONTEXTS, *_ASSOCIATIONS, *_REGISTRY)
