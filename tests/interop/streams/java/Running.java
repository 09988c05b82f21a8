import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/**
 * All cases in one application on a real broker, exactly once. Topics are made, and inputs written, if they are not there yet; then the
 * application runs until it has read everything and its outputs stand still. What is answered is all that is in the outputs.
 */
final class Running {
    private static final Duration PATIENCE = Duration.ofSeconds(200);
    private static final Duration QUIET = Duration.ofSeconds(3);
    private static final Duration POLL = Duration.ofMillis(200);
    // A task waits so long for a record of each of its topics: then it takes them in the order of their times.
    private static final long TASK_IDLE_MS = 2000;
    // Records of topics in between are deleted so soon after they were read.
    private static final long PURGE_MS = 1000;

    // The records are of 1970.
    private static final Map<String, String> KEPT = Map.of("retention.ms", "-1");

    private final String bootstrapServers;
    private final String application;

    Running(String bootstrapServers, String application) {
        this.bootstrapServers = bootstrapServers;
        this.application = application;
    }

    List<ObjectNode> answers(List<Oracle.Case> cases) throws Exception {
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers))) {
            write(cases, admin);
            StreamsBuilder builder = new StreamsBuilder();
            cases.forEach(one -> Oracle.build(one.name(), builder));
            CountDownLatch failed = new CountDownLatch(1);
            try (KafkaStreams streams = new KafkaStreams(builder.build(), config())) {
                streams.setUncaughtExceptionHandler(error -> {
                    error.printStackTrace();
                    failed.countDown();
                    return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
                streams.start();
                List<ObjectNode> answers = read(cases, admin, failed);
                waitForPurge(admin);
                return answers;
            }
        }
    }

    private Properties config() throws Exception {
        Properties config = Oracle.config(application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, TASK_IDLE_MS);
        config.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, PURGE_MS);
        config.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("oracle").toString());
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        return config;
    }

    private void write(List<Oracle.Case> cases, Admin admin) throws Exception {
        Set<String> there = admin.listTopics().names().get();
        List<NewTopic> missing = new ArrayList<>();
        List<ProducerRecord<String, ObjectNode>> records = new ArrayList<>();
        for (Oracle.Case one : cases) {
            Map<String, Integer> partitions = new HashMap<>();
            one.records().forEach(row -> partitions.merge(one.topic(row.get("topic").asText()), row.path("partition").asInt(0) + 1, Math::max));
            one.outputs().forEach(topic -> partitions.put(one.topic(topic), 1));
            if (!there.containsAll(partitions.keySet())) {
                partitions.forEach((topic, count) -> missing.add(new NewTopic(topic, count, (short) 1).configs(KEPT)));
                one.records().forEach(row -> records.add(new ProducerRecord<>(one.topic(row.get("topic").asText()), row.path("partition").asInt(0),
                        row.get("timestamp").asLong(), Json.text(row, "key"), Oracle.value(row))));
            }
        }
        admin.createTopics(missing).all().get();
        Map<String, Object> config = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers, ProducerConfig.ACKS_CONFIG, "all");
        try (KafkaProducer<String, ObjectNode> producer = new KafkaProducer<>(config, new StringSerializer(), Json.SERDE.serializer())) {
            records.forEach(producer::send);
        }
    }

    private List<ObjectNode> read(List<Oracle.Case> cases, Admin admin, CountDownLatch failed) throws Exception {
        Map<String, ArrayNode> rows = new HashMap<>();
        Set<String> inputs = new HashSet<>();
        List<ObjectNode> answers = new ArrayList<>();
        for (Oracle.Case one : cases) {
            ObjectNode outputs = Json.object();
            one.outputs().forEach(topic -> rows.put(one.topic(topic), outputs.putArray(topic)));
            one.records().forEach(row -> inputs.add(one.topic(row.get("topic").asText())));
            answers.add(Oracle.answer(one, outputs));
        }
        Map<String, Object> config = Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers, ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        try (KafkaConsumer<String, ObjectNode> consumer = new KafkaConsumer<>(config, new StringDeserializer(), Json.SERDE.deserializer())) {
            List<TopicPartition> partitions = rows.keySet().stream().map(topic -> new TopicPartition(topic, 0)).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            long quietSince = System.nanoTime();
            while (System.nanoTime() - quietSince < QUIET.toNanos()) {
                if (failed.getCount() == 0 || System.nanoTime() > deadline) {
                    throw new IllegalStateException(failed.getCount() == 0 ? "the application failed" : "not done: " + behind(admin, consumer, inputs));
                }
                int before = rows.values().stream().mapToInt(ArrayNode::size).sum();
                for (ConsumerRecord<String, ObjectNode> row : consumer.poll(POLL)) {
                    rows.get(row.topic()).add(Oracle.row(row.key(), row.value(), row.timestamp()));
                }
                if (rows.values().stream().mapToInt(ArrayNode::size).sum() > before || !behind(admin, consumer, inputs).isEmpty()) {
                    quietSince = System.nanoTime();
                }
            }
        }
        return answers;
    }

    /** Partitions that the application has not read to their ends, by how far. The last offset of a topic in between is a transaction's mark. */
    private Map<TopicPartition, Long> behind(Admin admin, KafkaConsumer<?, ?> consumer, Set<String> inputs) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
        Set<TopicPartition> partitions = new HashSet<>(committed.keySet());
        admin.describeTopics(inputs).allTopicNames().get().forEach((name, topic) ->
                topic.partitions().forEach(partition -> partitions.add(new TopicPartition(name, partition.partition()))));
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        Map<TopicPartition, Long> behind = new HashMap<>();
        for (TopicPartition partition : partitions) {
            OffsetAndMetadata offset = committed.get(partition);
            long missing = ends.get(partition) - (offset == null ? 0 : offset.offset());
            if (missing > (inputs.contains(partition.topic()) ? 0 : 1) && !isGlobal(partition.topic())) {
                behind.put(partition, missing);
            }
        }
        return behind;
    }

    /** Tasks do not commit what they read of a global table. */
    private static boolean isGlobal(String topic) {
        return topic.startsWith("stream-global-table-join.right");
    }

    /** Kafka Streams deletes what it has read from topics in between (DeleteRecords). */
    private void waitForPurge(Admin admin) throws Exception {
        Collection<String> topics = admin.listTopics().names().get().stream()
                .filter(name -> name.startsWith(application + "-") && name.endsWith("-repartition")).collect(Collectors.toSet());
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            Map<TopicPartition, OffsetSpec> first = new HashMap<>();
            Map<TopicPartition, OffsetSpec> last = new HashMap<>();
            admin.describeTopics(topics).allTopicNames().get().forEach((name, topic) -> topic.partitions().forEach(partition -> {
                first.put(new TopicPartition(name, partition.partition()), OffsetSpec.earliest());
                last.put(new TopicPartition(name, partition.partition()), OffsetSpec.latest());
            }));
            var starts = admin.listOffsets(first).all().get();
            var ends = admin.listOffsets(last).all().get();
            List<TopicPartition> full = ends.keySet().stream()
                    .filter(partition -> ends.get(partition).offset() > 0 && starts.get(partition).offset() == 0).toList();
            if (full.isEmpty()) {
                return;
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not purged: " + full);
            }
            TimeUnit.MILLISECONDS.sleep(POLL.toMillis());
        }
    }
}
