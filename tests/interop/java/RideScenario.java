import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A Java application at the client's defaults that rides through whatever happens to the brokers, until a line comes on standard input:
 * a producer of numbers, a reader of each group protocol, and a copier whose offsets are in its transactions. A line "progress" tells how
 * far all of them are whenever that has changed; the last lines are "key=value" for the test to judge. Whatever the client throws at the
 * application is an error.
 */
public final class RideScenario {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final long PAUSE_MS = 4;

    private final String bootstrapServers;
    private final String topic;
    private final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
    private final AtomicInteger acknowledged = new AtomicInteger();
    private final AtomicInteger transactions = new AtomicInteger();
    private volatile boolean stopping;
    private volatile int sent;
    private volatile boolean written;

    private RideScenario(String bootstrapServers, String topic) {
        this.bootstrapServers = bootstrapServers;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        new RideScenario(arguments[0], arguments[1]).ride();
    }

    private void ride() throws Exception {
        Map<String, Reader> readers = Map.of("classic", new Reader("classic"), "consumer", new Reader("consumer"));
        List<Thread> threads = List.of(
                start("producer", this::produce),
                start("classic reader", readers.get("classic")::read),
                start("consumer reader", readers.get("consumer")::read),
                start("copier", this::copy));
        start("watch", () -> watch(readers));
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        stopping = true;
        for (Thread thread : threads) {
            thread.join();
        }
        print("sent", sent);
        print("acknowledged", acknowledged.get());
        for (Map.Entry<String, Reader> reader : readers.entrySet()) {
            print(reader.getKey() + "-read", reader.getValue().count.get());
            print(reader.getKey() + "-distinct", reader.getValue().numbers.size());
        }
        print("log", contents(topic));
        print("copy", contents(topic + "-copy"));
        print("errors", errors);
    }

    private Thread start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception | Error error) {
                errors.add(name + ": " + error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /** Says how far everybody is, for the test to wait for. */
    private void watch(Map<String, Reader> readers) throws InterruptedException {
        String last = "";
        while (!stopping) {
            int read = readers.values().stream().mapToInt(reader -> reader.count.get()).min().orElse(0);
            String now = "progress=" + acknowledged.get() + " " + read + " " + transactions.get() + " " + errors.size();
            if (!now.equals(last)) {
                System.out.println(now);
            }
            last = now;
            Thread.sleep(50);
        }
    }

    private void produce() throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            while (!stopping) {
                producer.send(new ProducerRecord<>(topic, Integer.toString(sent)), (metadata, error) -> {
                    if (error == null) {
                        acknowledged.incrementAndGet();
                    } else {
                        errors.add("record: " + error);
                    }
                });
                sent++;
                Thread.sleep(PAUSE_MS);
            }
        }
        written = true;
    }

    private final class Reader {
        private final String protocol;
        private final AtomicInteger count = new AtomicInteger();
        private final Set<String> numbers = new HashSet<>();

        private Reader(String protocol) {
            this.protocol = protocol;
        }

        private void read() {
            Map<String, String> settings = Map.of("group.id", topic + "-" + protocol, "group.protocol", protocol);
            try (KafkaConsumer<String, String> consumer = consumer(settings)) {
                consumer.subscribe(List.of(topic));
                BooleanSupplier isDone = finish(() -> numbers.size() >= sent);
                while (!isDone.getAsBoolean()) {
                    for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                        numbers.add(record.value());
                        count.incrementAndGet();
                    }
                }
            }
        }
    }

    /** Each record of the topic goes to its copy once, with the offset in the same transaction. */
    private void copy() {
        Map<String, String> settings = Map.of(
                "group.id", topic + "-copier", "enable.auto.commit", "false", "isolation.level", "read_committed", "max.poll.records", "50");
        try (KafkaConsumer<String, String> consumer = consumer(settings);
                KafkaProducer<String, String> producer = producer(Map.of("transactional.id", topic + "-copier"))) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            int[] copied = {0};
            BooleanSupplier isDone = finish(() -> copied[0] >= sent);
            while (!isDone.getAsBoolean()) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(topic + "-copy", record.value()));
                    next.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                producer.commitTransaction();
                transactions.incrementAndGet();
                copied[0] += records.count();
            }
        }
    }

    /** True when everything was written and `reached`, or when that took too long: the counts tell then. */
    private BooleanSupplier finish(BooleanSupplier reached) {
        long[] deadline = {0};
        return () -> {
            if (!written) {
                return false;
            }
            if (deadline[0] == 0) {
                deadline[0] = System.nanoTime() + PATIENCE.toNanos();
            }
            return reached.getAsBoolean() || System.nanoTime() > deadline[0];
        };
    }

    /** "records/distinct values", as a reader of committed records finds them from the beginning. */
    private String contents(String name) {
        Set<String> values = new HashSet<>();
        int count = 0;
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            List<TopicPartition> partitions = consumer.partitionsFor(name).stream()
                    .map(each -> new TopicPartition(name, each.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    values.add(record.value());
                    count++;
                }
            }
        }
        return count + "/" + values.size();
    }

    private KafkaProducer<String, String> producer(Map<String, String> settings) {
        return new KafkaProducer<>(properties(settings), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(Map<String, String> settings) {
        Properties properties = properties(settings);
        properties.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private Properties properties(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.putAll(settings);
        properties.put("bootstrap.servers", bootstrapServers);
        return properties;
    }

    private static void print(String key, Object value) {
        System.out.println(key + "=" + value);
    }

    private interface Work {
        void run() throws Exception;
    }
}
