"""Pipelines: topics in and out of Spark, and the jobs between. The import loads nothing of Spark; a run does."""

from penstock.pipelines.pipeline import Batch, Branch, OpenSink, Pipeline, Settings, Sink, Source, Step, Watermark
from penstock.pipelines.topic_source import Topic

__all__ = ["Batch", "Branch", "OpenSink", "Pipeline", "Settings", "Sink", "Source", "Step", "Topic", "Watermark"]
