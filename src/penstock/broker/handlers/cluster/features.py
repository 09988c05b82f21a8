"""The features of the cluster: UpdateFeatures. ApiVersions lists their levels."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.features import FEATURES
from penstock.broker.session import RequestContext
from penstock.cluster.decisions.features import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate
from penstock.cluster.metadata import Metadata
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_LAST_VERSION_WITH_RESULTS = 1
# Kafka's prefix of the feature's own error.
_ALL_FAILED = "The update failed for all features since the following feature had an error: "


class FeaturePort(Protocol):
    """The parts of the broker that the handler of features uses."""

    authorizer: Authorizer
    metadata: Metadata


async def update_features(
    broker: FeaturePort, context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Raises the levels of features: all that the request names, or none of them.

    A refusal concerns the request as a whole, as in Kafka 4. Version 0 has a flag for a downgrade and no dry run; later
    versions have an upgrade type and `validate_only`. Versions up to 1 list each feature of a request that succeeds.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=code, error_message=describe(code))
    updates = [_update(context.api_version, each) for each in request.feature_updates]
    fixed = {feature.name: feature.level for feature in FEATURES}
    try:
        await broker.metadata.update_features(updates, fixed, validate_only=request.validate_only)
    except ApiError as error:
        message = error.message or describe(error.code)
        if error.code is ErrorCode.INVALID_UPDATE_VERSION:
            message = _ALL_FAILED + message
        return UpdateFeaturesResponse(error_code=error.code, error_message=message)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= _LAST_VERSION_WITH_RESULTS:
        response.results = [UpdatableFeatureResult(feature=each.name, error_message=None) for each in updates]
    return response


def _update(version: int, key: FeatureUpdateKey) -> FeatureUpdate:
    upgrade_type = key.upgrade_type
    if version == 0:
        upgrade_type = SAFE_DOWNGRADE if key.allow_downgrade else UPGRADE
    return FeatureUpdate(key.feature, key.max_version_level, upgrade_type)
