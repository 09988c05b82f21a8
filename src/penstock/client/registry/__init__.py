"""A client of a schema registry: Penstock's, Confluent's, or Apicurio's `ccompat` API."""

from penstock.client.registry.client import CacheLimits, RegistryClient
from penstock.client.registry.errors import RegistryAnswerError, RegistryClientError, RegistryUnreachableError
from penstock.client.registry.model import NewSchema, ReferencedSchema, RegisteredSchema, SchemaReference, Verdict
from penstock.client.registry.settings import RegistrySettings

__all__ = [
    "CacheLimits",
    "NewSchema",
    "ReferencedSchema",
    "RegisteredSchema",
    "RegistryAnswerError",
    "RegistryClient",
    "RegistryClientError",
    "RegistrySettings",
    "RegistryUnreachableError",
    "SchemaReference",
    "Verdict",
]
