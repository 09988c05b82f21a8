"""Schedules that once found a bug; each says which. The plans are written down, so that they stay when the drawing of
plans changes.
"""

from __future__ import annotations

import pytest

from proof.simulation.plan import Fault, FaultKind, Mode, Plan
from proof.simulation.run import explain
from proof.simulation.simulation import simulate

SCENARIOS = {
    # A segment was flushed to its end and sealed after that: nothing synced its index of aborted transactions any more,
    # and recovery took the missing file for "none was aborted".
    "aborted records were read as committed after a power cut": Plan(
        16,
        Mode.FLUSHED,
        2_500,
        ("transactional-1", "transactional-2", "committed-reader"),
        (Fault(2_000, FaultKind.POWER_CUT),),
    ),
    # The first pass of a later cleaning took an aborted transaction that had ended before the dirty part to go on in
    # it, left the producer's committed records out of the map, and the second pass removed them.
    "compaction removed committed records of a producer that had aborted a transaction": Plan(
        11, Mode.KILLED, 2_500, ("transactional-1", "keyed"), (Fault(900, FaultKind.KILL),)
    ),
    # A power cut undid the renaming of a deleted topic's directory: a topic of the same name, made since, stayed
    # offline.
    "a topic that was deleted and made again was offline after a power cut": Plan(
        5_218,
        Mode.FLUSHED,
        1_000,
        ("transactional-1", "topics", "reader"),
        (Fault(162, FaultKind.POWER_CUT), Fault(748, FaultKind.POWER_CUT)),
    ),
    # The mark of a clean shutdown was removed without a sync and came back with the power; and the snapshot that such a
    # shutdown leaves had not been synced: an open transaction was forgotten, and its abort not noted.
    "a power cut brought back the mark of an earlier clean shutdown": Plan(
        40_110,
        Mode.FLUSHED,
        1_000,
        ("transactional-1", "idempotent", "consumer", "keyed", "keyed", "consumer", "reader"),
        (
            Fault(404, FaultKind.CLEAN_RESTART, 0),
            Fault(679, FaultKind.FAILING_WRITES, 2000),
            Fault(918, FaultKind.SLOW_NETWORK, 3000),
            Fault(989, FaultKind.POWER_CUT, 0),
            Fault(4198, FaultKind.CLEAN_RESTART, 0),
        ),
    ),
    # The fsync of a coordinator's record failed, the client asked again, and was told that its partition had been added
    # already: the power took the record, and nobody ended the transaction that was written then.
    "a transaction hung whose beginning was not synced": Plan(
        7_818_006,
        Mode.FLUSHED,
        1_000,
        ("shared-2", "keyed", "idempotent", "transactional-2", "committer"),
        (
            Fault(840, FaultKind.FAILING_SYNC, 30),
            Fault(862, FaultKind.POWER_CUT, 57),
            Fault(911, FaultKind.CLEAN_RESTART, 0),
            Fault(912, FaultKind.POWER_CUT, 12),
        ),
    ),
    # A process was killed before it had synced a batch; the next one found it, told the client that sent it again that
    # it was a duplicate, and the power took it.
    "a batch was lost that was acknowledged as a duplicate of one not synced": Plan(
        7_818_001,
        Mode.FLUSHED,
        2_500,
        ("idempotent", "idempotent", "keyed", "committed-reader"),
        (
            Fault(613, FaultKind.FULL_DISK, 5),
            Fault(686, FaultKind.KILL, 0),
            Fault(762, FaultKind.FAILING_SYNC, 200),
            Fault(975, FaultKind.KILL, 21),
            Fault(1669, FaultKind.POWER_CUT, 22),
            Fault(1869, FaultKind.POWER_CUT, 39),
            Fault(1899, FaultKind.FULL_DISK, 5),
            Fault(1997, FaultKind.POWER_CUT, 0),
        ),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_promise_holds_that_this_schedule_once_broke(name: str) -> None:
    verdict = simulate(SCENARIOS[name])
    assert verdict.is_sound, explain(verdict)
