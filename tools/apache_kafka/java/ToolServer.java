import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one virtual machine, because most of a tool's time is the start of one. Each request on
 * standard input is a class and its arguments, each answer on standard output the exit code and what the tool printed. A number of
 * four bytes is before each list and each text. The end of standard input ends it.
 *
 * <p>A tool has ended when it calls {@link Exit}: what it prints while it unwinds is not part of the answer, since in a machine of its
 * own it would not have printed it.
 */
public final class ToolServer {
    private static final long UNWINDING_MS = TimeUnit.SECONDS.toMillis(5);

    private final Redirected out = new Redirected();
    private final Redirected err = new Redirected();
    private Answer answer;

    private ToolServer() {
    }

    public static void main(String[] arguments) throws Exception {
        try (DataInputStream requests = new DataInputStream(System.in);
                DataOutputStream answers = new DataOutputStream(new FileOutputStream(FileDescriptor.out))) {
            new ToolServer().serve(requests, answers);
        }
        Runtime.getRuntime().halt(0); // a tool may have left threads behind
    }

    private void serve(DataInputStream requests, DataOutputStream answers) throws IOException, InterruptedException {
        // Before any tool is loaded: Scala and log4j keep the streams that they find.
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(this::exit);
        Exit.setHaltProcedure(this::exit);
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException end) {
                return;
            }
            String[] words = new String[count];
            for (int i = 0; i < count; i++) {
                words[i] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
            }
            run(words).writeTo(answers);
        }
    }

    private Answer run(String[] words) throws InterruptedException {
        synchronized (this) {
            answer = null;
            out.begin();
            err.begin();
        }
        Thread thread = new Thread(() -> call(words), words[0]);
        thread.setDaemon(true);
        thread.start();
        synchronized (this) {
            while (answer == null) {
                wait();
            }
        }
        thread.join(UNWINDING_MS);
        return answer;
    }

    private void call(String[] words) {
        try {
            Class<?> tool = Class.forName(words[0]);
            tool.getMethod("main", String[].class).invoke(null, (Object) java.util.Arrays.copyOfRange(words, 1, words.length));
            end(0);
        } catch (InvocationTargetException wrapper) {
            if (!(wrapper.getCause() instanceof Ended)) {
                System.err.print("Exception in thread \"main\" ");
                wrapper.getCause().printStackTrace();
            }
            end(1);
        } catch (ReflectiveOperationException error) {
            error.printStackTrace();
            end(1);
        }
    }

    private void exit(int code, String message) {
        end(code);
        throw new Ended();
    }

    /** The first end is the one that counts. */
    private synchronized void end(int code) {
        if (answer == null) {
            answer = new Answer(code, out.end(), err.end());
            notifyAll();
        }
    }

    private record Answer(int code, byte[] out, byte[] err) {
        void writeTo(DataOutputStream answers) throws IOException {
            answers.writeInt(code);
            for (byte[] printed : new byte[][] {out, err}) {
                answers.writeInt(printed.length);
                answers.write(printed);
            }
            answers.flush();
        }
    }

    /** Unwinds a tool that has called Exit. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        Ended() {
            super("the tool has ended", null, false, false);
        }
    }

    /** What is printed between begin and end; the rest is dropped. */
    private static final class Redirected extends OutputStream {
        private ByteArrayOutputStream printed;

        synchronized void begin() {
            printed = new ByteArrayOutputStream();
        }

        synchronized byte[] end() {
            byte[] all = printed.toByteArray();
            printed = null;
            return all;
        }

        @Override
        public synchronized void write(int character) {
            if (printed != null) {
                printed.write(character);
            }
        }

        @Override
        public synchronized void write(byte[] characters, int offset, int length) {
            if (printed != null) {
                printed.write(characters, offset, length);
            }
        }
    }
}
