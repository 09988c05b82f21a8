"""State machines of one key: what Spark's own operators cannot do. Pure: no Spark, no clock of their own.

`machine` says what a machine is; `lowering.stateful` runs one on a frame, `memory` runs one without Spark.
"""
