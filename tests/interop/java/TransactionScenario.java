import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What a Java application does in transactions: one scenario per run, named by the second argument. Prints what it saw as "key=value"
 * lines for the test to judge, and ends with a stack trace when the client itself fails.
 */
public final class TransactionScenario {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final Duration POLL = Duration.ofMillis(100);

    private final String bootstrapServers;
    private final String topic;

    private TransactionScenario(String bootstrapServers, String topic) {
        this.bootstrapServers = bootstrapServers;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        TransactionScenario scenario = new TransactionScenario(arguments[0], arguments[2]);
        switch (arguments[1]) {
            case "commit-and-abort" -> scenario.commitAndAbort();
            case "copy" -> scenario.copy(arguments[3]);
            case "fence" -> scenario.fence();
            case "time-out" -> scenario.timeOut();
            default -> throw new IllegalArgumentException("no scenario named " + arguments[1]);
        }
    }

    /** Transactions of one producer over three partitions, every third of them aborted. */
    private void commitAndAbort() {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            producer.initTransactions();
            for (int transaction = 0; transaction < 30; transaction++) {
                producer.beginTransaction();
                for (int number = 0; number < 10; number++) {
                    producer.send(new ProducerRecord<>(topic, number % 3, null, transaction + "/" + number));
                }
                if (transaction % 3 == 2) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        List<String> committed = readAll("read_committed", 3);
        print("committed", committed.size());
        print("distinct", new TreeSet<>(committed).size());
        print("aborted-seen", committed.stream().filter(value -> Integer.parseInt(value.split("/")[0]) % 3 == 2).count());
        print("uncommitted", readAll("read_uncommitted", 3).size());
    }

    /** Copies from partition 0 to partition 1 with its offsets in the transactions; a second copier goes on where the first stopped. */
    private void copy(String groupProtocol) throws Exception {
        TopicPartition source = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> filler = plainProducer()) {
            for (int number = 0; number < 100; number++) {
                filler.send(new ProducerRecord<>(topic, 0, null, Integer.toString(number)));
            }
        }
        copySome(groupProtocol, 40);
        copySome(groupProtocol, 100);
        List<String> copies = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            TopicPartition target = new TopicPartition(topic, 1);
            consumer.assign(List.of(target));
            consumer.seekToBeginning(List.of(target));
            long end = consumer.endOffsets(List.of(target)).get(target);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (consumer.position(target) < end && System.nanoTime() < deadline) {
                consumer.poll(POLL).forEach(record -> copies.add(record.value()));
            }
        }
        print("copies", copies.size());
        print("distinct", new TreeSet<>(copies).size());
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("group.id", topic + "-group"))) {
            OffsetAndMetadata committed = consumer.committed(java.util.Set.of(source)).get(source);
            print("committed-offset", committed.offset());
        }
    }

    private void copySome(String groupProtocol, long until) {
        Map<String, String> settings = Map.of(
                "group.id", topic + "-group", "group.protocol", groupProtocol, "max.poll.records", "7", "isolation.level", "read_committed");
        TopicPartition source = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(Map.of());
                KafkaConsumer<String, String> consumer = consumer(settings)) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            int round = 0;
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            for (long next = 0; next < until; ) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("copying took too long");
                }
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                List<ConsumerRecord<String, String>> found = records.records(source);
                if (found.isEmpty()) {
                    continue;
                }
                next = found.get(found.size() - 1).offset() + 1;
                producer.beginTransaction();
                found.forEach(record -> producer.send(new ProducerRecord<>(topic, 1, null, record.value())));
                producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(next)), consumer.groupMetadata());
                if (round++ % 3 == 1) {
                    producer.abortTransaction();
                    consumer.seek(source, found.get(0).offset());
                    next = found.get(0).offset();
                } else {
                    producer.commitTransaction();
                }
            }
        }
    }

    /** A second producer with the same id ends the first one's transaction and keeps it from writing. */
    private void fence() throws Exception {
        try (KafkaProducer<String, String> zombie = producer(Map.of());
                KafkaProducer<String, String> successor = producer(Map.of())) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, null, "from the zombie")).get();
            successor.initTransactions();
            successor.beginTransaction();
            successor.send(new ProducerRecord<>(topic, 0, null, "from the successor")).get();
            successor.commitTransaction();
            print("zombie", failure(zombie::commitTransaction));
        }
        print("committed", readAll("read_committed", 1));
    }

    /** A transaction that nobody ends is ended by the broker, and its producer is told when it comes back. */
    private void timeOut() throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of("transaction.timeout.ms", "1000"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, null, "late")).get();
            print("open", stableEnd());
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (stableEnd() == 0 && System.nanoTime() < deadline) {
                Thread.sleep(100);
            }
            print("ended", stableEnd());
            print("producer", failure(producer::commitTransaction));
        }
        print("committed", readAll("read_committed", 1));
    }

    private long stableEnd() {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            return consumer.endOffsets(List.of(partition)).get(partition);
        }
    }

    private static String failure(Runnable operation) {
        try {
            operation.run();
            return "none";
        } catch (KafkaException error) {
            return error.getClass().getSimpleName();
        }
    }

    private List<String> readAll(String isolation, int partitionCount) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int partition = 0; partition < partitionCount; partition++) {
            partitions.add(new TopicPartition(topic, partition));
        }
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = new HashMap<>(consumer.endOffsets(partitions));
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end was not reached: " + new TreeMap<>(Map.of("at", values.size())));
                }
                consumer.poll(POLL).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    private KafkaProducer<String, String> producer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrapServers);
        properties.put("transactional.id", topic + "-id");
        properties.putAll(settings);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private KafkaProducer<String, String> plainProducer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrapServers);
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrapServers);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.putAll(settings);
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private static void print(String key, Object value) {
        System.out.println(key + "=" + value);
    }
}
