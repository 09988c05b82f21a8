"""Metadata images that follow on one another, for properties of deltas, of the log and of loading."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from hypothesis import strategies as st

from penstock.cluster.image import BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import LevelRange
from penstock.cluster.security_image import SecurityImage, client_key, ip_key, user_key
from penstock.core.listeners import Endpoint
from penstock.security.acls.types import AclEntry, Operation, PatternType, Permission, ResourcePattern, ResourceType

TOPICS = ["a", "b.c", "__consumer_offsets"]
NODES = [1, 2, 3]
GROUPS = ["g", "a/b ", "%2F."]
SETTINGS = st.sampled_from([{}, {"x": "1"}, {"x": ""}, {"retention.ms": "ü"}, {"x": "1", "retention.ms": "5"}])
DIRECTORIES = st.sampled_from([(), ("a",), ("a", "b")])
SOME_SETTINGS = SETTINGS.filter(bool)
ANY_NODE = st.sampled_from(NODES)
SOME_NODES = st.lists(ANY_NODE, unique=True)
REPLICAS = st.lists(ANY_NODE, unique=True, min_size=1, max_size=3).map(tuple)
# Hypothesis takes longer to build and check a strategy than to draw from it, so each is built once.
RACKS = st.sampled_from([None, "rack"])
SOME_TOPICS = st.lists(st.sampled_from(TOPICS), unique=True)
FATES = st.sampled_from(["anew", "gone", "changed"])
STEPS = st.sampled_from(["same", "led", "moved"])
LEADERS = st.sampled_from([-1, *NODES])
ADDED, REMOVED = st.sampled_from([(), (3,)]), st.sampled_from([(), (1,)])
SETTINGS_BY_NODE = st.dictionaries(ANY_NODE, SOME_SETTINGS, max_size=2)
DIRECTORIES_BY_NODE = st.dictionaries(ANY_NODE, DIRECTORIES, max_size=2)
SETTINGS_BY_GROUP = st.dictionaries(st.sampled_from(GROUPS), SOME_SETTINGS, max_size=2)


@st.composite
def brokers(draw: st.DrawFn) -> dict[int, BrokerRegistration]:
    return {
        node_id: BrokerRegistration(
            node_id,
            (Endpoint("PLAINTEXT", f"host-{node_id}", 9092, "PLAINTEXT"),),
            draw(RACKS),
            draw(st.integers(1, 9)),
            draw(st.integers(-1, 3)),
            draw(st.booleans()),
            LevelRange(1, draw(st.integers(1, 2))),
            draw(DIRECTORIES),
            draw(st.booleans()),
        )
        for node_id in draw(SOME_NODES)
    }


@st.composite
def new_state(draw: st.DrawFn, partition: int) -> PartitionState:
    replicas = draw(REPLICAS)
    return PartitionState(partition, replicas, replicas, draw(st.sampled_from([-1, *replicas])))


@st.composite
def new_topic(draw: st.DrawFn, name: str, number: int) -> TopicImage:
    states = tuple(draw(new_state(index)) for index in range(draw(st.integers(1, 4))))
    return TopicImage(name, f"{number:06d}{name:.10}".ljust(16).encode(), states, MappingProxyType(draw(SETTINGS)))


@st.composite
def changed_topic(draw: st.DrawFn, topic: TopicImage) -> TopicImage:
    states = []
    for state in topic.partitions:
        match draw(STEPS):
            case "led":
                state = state._replace(
                    leader=draw(LEADERS),
                    leader_epoch=state.leader_epoch + 1,
                    partition_epoch=state.partition_epoch + 1,
                )
            case "moved":
                state = state._replace(
                    replicas=draw(REPLICAS),
                    adding=draw(ADDED),
                    removing=draw(REMOVED),
                    partition_epoch=state.partition_epoch + 1,
                )
        states.append(state)
    states += [draw(new_state(len(states) + index)) for index in range(draw(st.integers(0, 2)))]
    configs = MappingProxyType(draw(SETTINGS)) if draw(st.booleans()) else topic.configs
    return topic._replace(partitions=tuple(states), configs=configs)


RESOURCES = st.builds(
    ResourcePattern,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID]),
    st.sampled_from(["*", "orders", "a/b", "..", "ü~"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ACLS = st.builds(
    AclEntry,
    st.sampled_from(["User:*", "User:alice"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([Operation.READ, Operation.IDEMPOTENT_WRITE]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
ENTITIES = st.sampled_from(
    [
        user_key("alice"),
        user_key(None),
        client_key("app", of_user="alice"),
        client_key(None, of_user=None),
        client_key("a/b"),
        ip_key("10.0.0.1"),
    ]
)

RULES = st.dictionaries(RESOURCES, st.lists(ACLS, min_size=1, max_size=3).map(tuple), max_size=3)
QUOTAS = st.dictionaries(ENTITIES, SOME_SETTINGS, max_size=3)
NAMED = st.dictionaries(st.sampled_from(["one", "."]), SOME_SETTINGS, max_size=2)


@st.composite
def securities(draw: st.DrawFn) -> SecurityImage:
    return SecurityImage(draw(RULES), draw(QUOTAS), draw(NAMED), draw(NAMED))


@st.composite
def next_image(draw: st.DrawFn, image: MetadataImage) -> MetadataImage:
    """Another image, as a controller could make it of this one."""
    topics = dict(image.topics)
    for name in draw(SOME_TOPICS):
        present = topics.pop(name, None)
        match draw(FATES):
            case "anew":
                topics[name] = draw(new_topic(name, image.number))
            case "changed" if present is not None:
                topics[name] = draw(changed_topic(present))
    image = replace(image, topics=topics, number=image.number + 1)
    if draw(st.booleans()):
        image = replace(
            image,
            brokers=draw(brokers()),
            directories=draw(DIRECTORIES_BY_NODE),
            away=draw(brokers()),
            broker_configs=draw(SETTINGS_BY_NODE),
            default_broker_config=draw(SETTINGS),
            group_configs=draw(SETTINGS_BY_GROUP),
        )
    if draw(st.booleans()):
        image = replace(image, security=draw(securities()))
    if draw(st.booleans()):
        image = replace(image, controller_id=draw(ANY_NODE), controller_epoch=image.controller_epoch + 1)
    return image


@st.composite
def histories(draw: st.DrawFn) -> list[MetadataImage]:
    """Images that follow on one another, from that of a new cluster on."""
    images = [MetadataImage("cluster")]
    for _ in range(draw(st.integers(1, 5))):
        images.append(draw(next_image(images[-1])))
    return images
