"""The address of a resource, and its name among Confluent's resources (`crn:///kafka=ID/topic=NAME`). Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, urlencode

from penstock.rest.v3.shapes import ListMetadata, Metadata, Related


class ResourceUrl(NamedTuple):
    url: str
    crn: str

    @classmethod
    def of_cluster(cls, base: str, cluster_id: str) -> ResourceUrl:
        """`base` is the scheme, host and port of the caller's request."""
        return cls(f"{base}/v3/clusters", "crn://").under("", "kafka", cluster_id)

    def under(self, folder: str, kind: str, name: str | int) -> ResourceUrl:
        """A resource below this one: `topic.under("partitions", "partition", 3)`."""
        path = f"{self.url}/{folder}" if folder else self.url
        return ResourceUrl(f"{path}/{quote(str(name), safe='')}", f"{self.crn}/{kind}={str(name).strip('/')}")

    def part(self, name: str) -> ResourceUrl:
        """A resource that exists once: `group.part("lag-summary")`."""
        return ResourceUrl(f"{self.url}/{name}", f"{self.crn}/{name}")

    @property
    def metadata(self) -> Metadata:
        return Metadata(link=self.url, resource_name=self.crn)

    @property
    def related(self) -> Related:
        return Related(self.url)

    def listing(self, folder: str) -> ListMetadata:
        return ListMetadata(link=f"{self.url}/{folder}")

    def relating(self, folder: str) -> Related:
        return Related(f"{self.url}/{folder}")

    def asking(self, folder: str, query: dict[str, str]) -> str:
        return f"{self.url}/{folder}?{urlencode(query, safe='*')}"
