"""UpdateFeatures, version by version, and what ApiVersions tells of the level of the metadata."""

from __future__ import annotations

import pytest

from penstock.cluster.levels import FEATURE, SUPPORTED
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.clients.raw.wire import Wire


def test_level_of_the_metadata_is_told_when_a_client_asks_for_features(wire: Wire) -> None:
    answer = wire(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert supported[FEATURE] == tuple(SUPPORTED)
    assert finalized[FEATURE] == SUPPORTED.highest


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_feature_is_listed_when_an_older_version_succeeds(wire: Wire, version: int) -> None:
    keys = [
        FeatureUpdateKey(feature=FEATURE, max_version_level=SUPPORTED.highest),
        FeatureUpdateKey(feature="transaction.version", max_version_level=2),
    ]
    answer = wire(UpdateFeaturesRequest(feature_updates=keys), version)
    assert answer.error_code == ErrorCode.NONE
    assert [(each.feature, each.error_code) for each in answer.results] == (
        [(FEATURE, 0), ("transaction.version", 0)] if version < 2 else []
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_whole_request_is_refused_when_one_feature_is(wire: Wire, version: int) -> None:
    answer = wire(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="x", max_version_level=1)]), version)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update version 1 for "
        "feature x. Local controller 1 does not support this feature."
    )
    assert answer.results == []
