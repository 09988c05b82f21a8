import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Records by Confluent's Avro serializers: `write BOOTSTRAP REGISTRY TOPIC COUNT SCHEMA`, `read ... COUNT`. */
public class AvroScenario {
  private static final long PATIENCE_MS = 60_000;

  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    settings.putAll(Map.of(
        "bootstrap.servers", arguments[1],
        "schema.registry.url", arguments[2],
        "key.serializer", "org.apache.kafka.common.serialization.StringSerializer",
        "key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer",
        "value.serializer", "io.confluent.kafka.serializers.KafkaAvroSerializer",
        "value.deserializer", "io.confluent.kafka.serializers.KafkaAvroDeserializer",
        "group.id", "java-avro",
        "auto.offset.reset", "earliest"));
    int count = Integer.parseInt(arguments[4]);
    if (arguments[0].equals("write")) {
      write(settings, arguments[3], count, new Schema.Parser().parse(arguments[5]));
    } else {
      read(settings, arguments[3], count);
    }
  }

  private static void write(Properties settings, String topic, int count, Schema schema) throws Exception {
    try (KafkaProducer<String, GenericRecord> producer = new KafkaProducer<>(settings)) {
      for (int number = 0; number < count; number++) {
        GenericRecord record = new GenericData.Record(schema);
        record.put("number", number);
        record.put("name", "java " + number);
        producer.send(new ProducerRecord<>(topic, "k" + number, record)).get();
      }
    }
    System.out.println("written " + count);
  }

  private static void read(Properties settings, String topic, int count) {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    try (KafkaConsumer<String, GenericRecord> consumer = new KafkaConsumer<>(settings)) {
      consumer.subscribe(List.of(topic));
      while (count > 0 && System.currentTimeMillis() < deadline) {
        for (ConsumerRecord<String, GenericRecord> record : consumer.poll(Duration.ofMillis(200))) {
          System.out.println(record.key() + " " + record.value());
          count--;
        }
      }
    }
  }
}
