"""Three brokers that log in at each other by Kerberos, in a process of their own: the realm comes from the environment.

    python -m tests.interop.security.kerberos_cluster KEYTAB DIRECTORY

Prints on how many brokers a record is that each replica has to confirm.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiokafka import AIOKafkaProducer

from penstock.client.connection import Connection
from penstock.client.security import ClientSecurity
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.config.broker_config import BrokerConfig
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.security.sasl.gssapi import GssapiCredentials
from penstock.server.broker_server import BrokerServer
from penstock.testing.processes import find_free_port
from tests.interop.security.kerberos import BROKER, REALM, SERVICE, jaas

BROKERS = (1, 2, 3)
TOPIC = "copied"


async def main(keytab: str, directory: Path) -> str:
    tree, ports = MemoryTree(), {number: find_free_port() for number in BROKERS}
    configs = [
        {
            "node.id": str(number),
            "log.dirs": str(directory / f"data-{number}"),
            "listeners": f"SASL_PLAINTEXT://localhost:{ports[number]}",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.jaas.config": jaas(Path(keytab), BROKER),
            "min.insync.replicas": "3",
        }
        for number in BROKERS
    ]
    starts = (BrokerServer.start(BrokerConfig.parse(config), store=MemoryStore(tree)) for config in configs)
    servers = await asyncio.gather(*starts)
    try:
        security = ClientSecurity(credentials=GssapiCredentials(SERVICE, f"{BROKER}@{REALM}", keytab))
        async with await Connection.open("localhost", ports[1], security=security) as connection:
            wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3)
            answer = await connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
            assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        async with AIOKafkaProducer(
            bootstrap_servers=f"localhost:{ports[1]}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name=SERVICE,
            acks="all",
        ) as producer:
            await producer.send_and_wait(TOPIC, b"one")
        return str(len(servers[0].broker.metadata.image.topics[TOPIC].partitions[0].isr))
    finally:
        for server in servers:
            await server.stop()


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], Path(sys.argv[2]))))
