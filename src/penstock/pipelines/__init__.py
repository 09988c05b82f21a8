"""Pipelines: topics in and out of Spark, and the jobs between. Importing this costs nothing of Spark; running does."""

from penstock.pipelines.pipeline import Batch, Branch, OpenSink, Pipeline, Settings, Sink, Source, Step, Watermark
from penstock.pipelines.topic_source import Topic

__all__ = ["Batch", "Branch", "OpenSink", "Pipeline", "Settings", "Sink", "Source", "Step", "Topic", "Watermark"]
