"""Settings of the session that answers questions."""

from __future__ import annotations

from penstock.pipelines.sql.spark_session import sql_settings


def test_a_task_is_tried_once_when_somebody_waits_for_the_answer() -> None:
    assert sql_settings({"spark.master": ""})["spark.master"] == "local[*]"


def test_a_task_is_tried_again_when_a_question_is_followed() -> None:
    assert sql_settings({"spark.master": ""}, is_stream=True)["spark.master"] == "local[*,4]"


def test_a_master_is_kept_when_it_is_given() -> None:
    assert sql_settings({"spark.master": "spark://host:7077"})["spark.master"] == "spark://host:7077"
