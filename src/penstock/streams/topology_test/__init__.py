"""Runs an application on a test's rows: no broker, results within a second once a Spark session is up."""

from penstock.streams.topology_test.records import Record
from penstock.streams.topology_test.topology_test import TopologyTest

__all__ = ["Record", "TopologyTest"]
