"""State machines of one key, for operations that Spark's operators lack. Pure: no Spark, no clock of their own.

`machine` defines a machine; `lowering.stateful` runs one on a frame, `memory` runs one without Spark.
"""
