"""The parts that the families of operations share: the state, the writer, the threads, the parser."""

from __future__ import annotations

from penstock.registry.errors import invalid_schema
from penstock.registry.model import Content, Rendering, SchemaTags
from penstock.registry.operations.parsing import Parser, SchemaSource, found_tags, needs_parsing, source_of
from penstock.registry.operations.references import qualified, resolve
from penstock.registry.services.serial_writer import RegistryWriter
from penstock.registry.services.worker_threads import Workers
from penstock.registry.state import State
from penstock.schemas.compatibility import Level
from penstock.schemas.schema import InvalidSchemaError, Reference


class Engine:
    def __init__(self, state: State, writer: RegistryWriter, default_level: Level) -> None:
        self.state = state
        self.writer = writer
        self.default_level = default_level
        self.workers = Workers()
        self.parser = Parser()

    async def text(self, content: Content, subject: str, format_name: str) -> str:
        """The schema in the format. `subject` gives the place of its references."""
        if not needs_parsing(content, format_name):
            return content.text
        source = self.source(content, subject)
        return await self.workers.run(lambda: self.parser.formatted(source, format_name))

    def source(self, content: Content, subject: str) -> SchemaSource:
        """The values for the content's parse (42201: a reference is missing)."""
        try:
            return source_of(content, resolve(self.state, subject, content.references))
        except InvalidSchemaError as error:
            raise invalid_schema(str(error)) from None

    async def tags(self, content: Content, subject: str, rendering: Rendering) -> tuple[SchemaTags, ...]:
        """The inline tags for the caller."""
        if not rendering.find_tags:
            return ()
        source = self.source(content, subject)
        return await self.workers.run(lambda: found_tags(self.parser.parse(source), rendering.find_tags))

    def references(self, content: Content, subject: str, rendering: Rendering) -> tuple[Reference, ...]:
        if rendering.reference_format == "qualified":
            return qualified(subject, content.references)
        return content.references
