"""Removes custom parts from a .proto file: extensions, and options that are extensions."""

from __future__ import annotations

from dataclasses import replace

from penstock.schemas.protobuf.elements import Enum, Field, Message, Option, ProtoFile, Rpc, Service


def without_extensions(file: ProtoFile) -> ProtoFile:
    """Confluent's own options stay."""
    return replace(
        file,
        options=_options(file.options),
        messages=[_message(each) for each in file.messages],
        enums=[_enum(each) for each in file.enums],
        extends=[],
        services=[_service(each) for each in file.services],
    )


def _options(options: list[Option]) -> list[Option]:
    return [each for each in options if not each.is_custom or each.name.lstrip("(.").startswith("confluent.")]


def _message(message: Message) -> Message:
    oneofs = [replace(each, fields=_fields(each.fields), options=_options(each.options)) for each in message.oneofs]
    return replace(
        message,
        fields=_fields(message.fields),
        oneofs=oneofs,
        messages=[_message(each) for each in message.messages],
        enums=[_enum(each) for each in message.enums],
        extensions=[],
        extends=[],
        options=_options(message.options),
    )


def _fields(fields: list[Field]) -> list[Field]:
    return [
        replace(each, options=_options(each.options), group=None if each.group is None else _message(each.group))
        for each in fields
    ]


def _enum(enum: Enum) -> Enum:
    constants = [replace(each, options=_options(each.options)) for each in enum.constants]
    return replace(enum, constants=constants, options=_options(enum.options))


def _service(service: Service) -> Service:
    return replace(service, rpcs=[_rpc(each) for each in service.rpcs], options=_options(service.options))


def _rpc(rpc: Rpc) -> Rpc:
    return replace(rpc, options=_options(rpc.options))
