import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What a Java application does with the official client: one scenario per run, named by the second argument. Prints what it saw as
 * "key=value" lines for the test to judge, and ends with a stack trace when the client itself fails.
 */
public final class ClientScenario {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(100);

    private final String bootstrapServers;
    private final String topic;

    private ClientScenario(String bootstrapServers, String topic) {
        this.bootstrapServers = bootstrapServers;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        ClientScenario scenario = new ClientScenario(arguments[0], arguments[2]);
        switch (arguments[1]) {
            case "produce-and-consume" -> scenario.produceAndConsume(arguments[3]);
            case "seek" -> scenario.seek();
            case "fetch-sessions" -> scenario.fetchSessions();
            case "rebalance" -> scenario.rebalance(arguments[3]);
            case "static-membership" -> scenario.staticMembership();
            case "commit-metadata" -> scenario.commitMetadata();
            case "consumer-protocol" -> scenario.consumerProtocol();
            default -> throw new IllegalArgumentException("no scenario named " + arguments[1]);
        }
    }

    /** Keys, nulls, headers and empty values survive; offsets are dense. */
    private void produceAndConsume(String codec) throws Exception {
        int count = 1000;
        Map<Integer, Long> lastOffsets = new TreeMap<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec, "acks", "all"))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                byte[] key = number % 3 == 0 ? null : bytes("key-" + number % 7);
                byte[] value = number % 5 == 0 ? null : bytes("value-" + number);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, number % 4, 1_000_000L + number, key, value);
                record.headers().add("number", bytes(Integer.toString(number))).add("empty", null);
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata metadata = future.get();
                lastOffsets.merge(metadata.partition(), metadata.offset(), Math::max);
            }
        }
        print("last-offsets", lastOffsets);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(partitions(4));
            consumer.seekToBeginning(partitions(4));
            List<ConsumerRecord<byte[], byte[]>> records = read(consumer, count);
            Set<Integer> numbers = new HashSet<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                int number = Integer.parseInt(new String(record.headers().lastHeader("number").value()));
                numbers.add(number);
                boolean sameKey = (record.key() == null) == (number % 3 == 0);
                boolean sameValue = record.value() == null ? number % 5 == 0 : new String(record.value()).equals("value-" + number);
                boolean sameTime = record.timestamp() == 1_000_000L + number;
                if (!sameKey || !sameValue || !sameTime || record.headers().lastHeader("empty").value() != null) {
                    print("damaged", record);
                }
            }
            print("distinct", numbers.size());
        }
    }

    private void seek() throws Exception {
        fill(1, 100);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("max.poll.records", "1"))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 42);
            print("at-42", read(consumer, 1).get(0).offset());
            print("by-time", consumer.offsetsForTimes(Map.of(partition, 1_000_050L)).get(partition).offset());
            print("past-the-end", consumer.offsetsForTimes(Map.of(partition, 9_000_000L)).get(partition));
            print("end", consumer.endOffsets(List.of(partition)).get(partition));
            print("beginning", consumer.beginningOffsets(List.of(partition)).get(partition));
            consumer.seek(partition, 5000);
            print("out-of-range", read(consumer, 1).get(0).offset());
            print("lag", consumer.currentLag(partition).isPresent());
        }
    }

    /** Many partitions of which few change: the broker must answer with the changed ones alone, and forget none. */
    private void fetchSessions() throws Exception {
        int partitionCount = 50;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("fetch.max.wait.ms", "100"))) {
            consumer.assign(partitions(partitionCount));
            consumer.seekToBeginning(partitions(partitionCount));
            consumer.poll(Duration.ofSeconds(1));
            Map<Integer, Integer> counts = new TreeMap<>();
            for (int round = 0; round < 20; round++) {
                int partition = round * 7 % partitionCount;
                try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
                    producer.send(new ProducerRecord<>(topic, partition, null, bytes("round-" + round))).get();
                }
                for (ConsumerRecord<byte[], byte[]> record : read(consumer, 1)) {
                    counts.merge(record.partition(), 1, Integer::sum);
                }
                if (round % 5 == 4) {
                    consumer.pause(List.of(new TopicPartition(topic, partition)));
                    consumer.poll(POLL);
                    consumer.resume(List.of(new TopicPartition(topic, partition)));
                }
            }
            print("records", counts.values().stream().mapToInt(Integer::intValue).sum());
            print("partitions", counts.size());
            print("fetches", metric(consumer, "fetch-total") > 0);
        }
    }

    /** One member, then two, then one again; every record is read once and nobody keeps a partition it lost. */
    private void rebalance(String assignor) throws Exception {
        fill(4, 400);
        Map<String, String> settings = Map.of("group.id", topic + "-group", "partition.assignment.strategy", assignor);
        Listener firstListener = new Listener();
        Listener secondListener = new Listener();
        try (KafkaConsumer<byte[], byte[]> first = consumer(settings)) {
            first.subscribe(List.of(topic), firstListener);
            Set<String> seen = new HashSet<>();
            read(first, 400).forEach(record -> seen.add(record.partition() + "@" + record.offset()));
            first.commitSync();
            print("alone", first.assignment().size());
            KafkaConsumer<byte[], byte[]> second = consumer(settings);
            second.subscribe(List.of(topic), secondListener);
            pollUntil(() -> first.assignment().size() == 2 && second.assignment().size() == 2, first, second);
            print("first", first.assignment().size());
            print("second", second.assignment().size());
            print("disjoint", java.util.Collections.disjoint(first.assignment(), second.assignment()));
            fill(4, 400);
            List<ConsumerRecord<byte[], byte[]>> more = new ArrayList<>();
            pollInto(more, 400, first, second);
            more.forEach(record -> seen.add(record.partition() + "@" + record.offset()));
            print("distinct", seen.size());
            print("read", more.size() + 400);
            first.commitSync();
            second.commitSync();
            second.close();
            pollUntil(() -> first.assignment().size() == 4, first);
            print("alone-again", first.assignment().size());
            print("group", first.groupMetadata().groupId().equals(topic + "-group"));
        }
        print("revoked-from-first", firstListener.revoked > 0);
        print("lost", firstListener.lost + secondListener.lost);
    }

    /** A static member that comes back within its session keeps its partitions and causes no rebalance. */
    private void staticMembership() throws Exception {
        fill(2, 20);
        Map<String, String> settings = new HashMap<>(Map.of("group.id", topic + "-group", "session.timeout.ms", "30000"));
        settings.put("group.instance.id", "other");
        try (KafkaConsumer<byte[], byte[]> other = consumer(settings)) {
            other.subscribe(List.of(topic));
            settings.put("group.instance.id", "restarted");
            KafkaConsumer<byte[], byte[]> before = consumer(settings);
            before.subscribe(List.of(topic));
            pollUntil(() -> before.assignment().size() == 1 && other.assignment().size() == 1, before, other);
            Set<TopicPartition> assigned = Set.copyOf(before.assignment());
            int generation = before.groupMetadata().generationId();
            before.close();
            try (KafkaConsumer<byte[], byte[]> after = consumer(settings)) {
                after.subscribe(List.of(topic));
                pollUntil(() -> after.assignment().size() == 1, after, other);
                print("same-partitions", after.assignment().equals(assigned));
                print("same-generation", after.groupMetadata().generationId() == generation);
                print("other-kept-its-own", other.assignment().size() == 1);
            }
        }
    }

    /** KIP-848: two members by an expression, one leaves, the group goes on, and a classic member migrates it. */
    private void consumerProtocol() throws Exception {
        fill(4, 40);
        Map<String, String> settings = Map.of("group.id", topic + "-group", "group.protocol", "consumer");
        KafkaConsumer<byte[], byte[]> first = consumer(settings);
        try (KafkaConsumer<byte[], byte[]> classic = consumer(Map.of("group.id", topic + "-group"))) {
            first.subscribe(new SubscriptionPattern(topic + ".*"));
            pollUntil(() -> first.assignment().size() == 4, first);
            KafkaConsumer<byte[], byte[]> second = consumer(settings);
            second.subscribe(List.of(topic));
            pollUntil(() -> first.assignment().size() == 2 && second.assignment().size() == 2, first, second);
            print("shared", first.assignment().size() + "+" + second.assignment().size());
            second.commitSync();
            second.close();
            pollUntil(() -> first.assignment().size() == 4, first);
            print("alone-again", first.assignment().size());
            first.commitSync();
            classic.subscribe(List.of(topic));
            pollUntil(() -> first.assignment().size() == 2 && classic.assignment().size() == 2, first, classic);
            print("both-protocols", first.assignment().size() + "+" + classic.assignment().size());
            first.close();
            pollUntil(() -> classic.assignment().size() == 4, classic);
            print("classic-again", classic.assignment().size());
        }
    }

    private void commitMetadata() throws Exception {
        fill(1, 10);
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, String> settings = Map.of("group.id", topic + "-group");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.assign(List.of(partition));
            print("before", consumer.committed(Set.of(partition)).get(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(7, "seven")));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.assign(List.of(partition));
            OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
            print("after", committed.offset() + "/" + committed.metadata());
            print("next", read(consumer, 1).get(0).offset());
        }
    }

    private static final class Listener implements ConsumerRebalanceListener {
        private int revoked;
        private int lost;

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost += partitions.size();
        }
    }

    private void fill(int partitionCount, int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, number % partitionCount, 1_000_000L + number, null, bytes("" + number))));
            }
            for (Future<RecordMetadata> future : sent) {
                future.get();
            }
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        pollInto(records, count, consumer);
        return records;
    }

    @SafeVarargs
    private static void pollInto(
            List<ConsumerRecord<byte[], byte[]>> records, int count, KafkaConsumer<byte[], byte[]>... consumers) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count && System.nanoTime() < deadline) {
            for (KafkaConsumer<byte[], byte[]> consumer : consumers) {
                consumer.poll(POLL).forEach(records::add);
            }
        }
        if (records.size() < count) {
            throw new IllegalStateException("read " + records.size() + " of " + count + " records");
        }
    }

    @SafeVarargs
    private static void pollUntil(BooleanSupplier reached, KafkaConsumer<byte[], byte[]>... consumers) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!reached.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("the group did not settle");
            }
            for (KafkaConsumer<byte[], byte[]> consumer : consumers) {
                consumer.poll(POLL);
            }
        }
    }

    private List<TopicPartition> partitions(int count) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < count; partition++) {
            partitions.add(new TopicPartition(topic, partition));
        }
        return partitions;
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.putAll(settings);
        properties.put("bootstrap.servers", bootstrapServers);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("heartbeat.interval.ms", "500");
        if ("consumer".equals(settings.get("group.protocol"))) {
            properties.remove("heartbeat.interval.ms"); // the broker says how often
        }
        properties.putAll(settings);
        properties.put("bootstrap.servers", bootstrapServers);
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static double metric(KafkaConsumer<byte[], byte[]> consumer, String name) {
        return consumer.metrics().entrySet().stream()
                .filter(entry -> entry.getKey().name().equals(name))
                .map(Map.Entry::getValue)
                .mapToDouble((Metric metric) -> ((Number) metric.metricValue()).doubleValue())
                .max()
                .orElse(0);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    private static void print(String key, Object value) {
        System.out.println(key + "=" + value);
    }
}
