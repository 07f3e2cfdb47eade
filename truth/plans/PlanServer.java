// A server with a thread per connection that executes a plan, and accounts for itself how long each step of each request
// took: the same plans and the same rows as plan_server.c, but for the queue, which Java cannot see.

import com.sun.nio.file.ExtendedOpenOption;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

public class PlanServer {
    static final int FIXED = 6, STALLS = 1024, HEADER = 16 + 24 * STALLS, UNKNOWN = -1;
    static final com.sun.management.ThreadMXBean THREADS =
        (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

    static final List<Step> steps = new ArrayList<>();
    static int columns, port, responseBytes = 1024, stallColumn = -1;
    static MappedByteBuffer header;
    static IntBuffer rows;
    static long capacity, next;
    static FileChannel log;
    static final Map<Integer, Integer> upstreams = new HashMap<>();
    static final byte[] body = new byte[1 << 20], text = new byte[1024];
    static final long[] store = new long[512];
    static final ReentrantLock[] locks = new ReentrantLock[4];
    static final long[] released = new long[4];
    static final ReentrantReadWriteLock gate = new ReentrantReadWriteLock();
    static Work stallWork;
    static long stallEveryMs, stallCount;
    static volatile long sink;
    static volatile byte[] kept;

    static long wall() { return System.nanoTime(); }
    static long cpu() { return THREADS.getCurrentThreadCpuTime(); }

    // ---- work that a profile can tell apart by its function; the flags of plans.py keep it from being inlined ----

    static void sort_records(long rounds) {
        int seed = 7;
        int[] record = new int[64];
        for (long round = 0; round < rounds; round++) {
            for (int i = 0; i < 64; i++) record[i] = seed = seed * 1664525 + 1013904223;
            for (int i = 1; i < 64; i++) {
                int one = record[i], j = i;
                for (; j > 0 && record[j - 1] > one; j--) record[j] = record[j - 1];
                record[j] = one;
            }
        }
        sink = record[31];
    }

    static void hash_blocks(long rounds) {
        long hash = 0xcbf29ce484222325L;
        for (long round = 0; round < rounds; round++)
            for (byte letter : text) hash = (hash ^ letter) * 1099511628211L;
        sink = hash;
    }

    static void scan_text(long rounds) {
        long words = 0;
        for (long round = 0; round < rounds; round++) {
            boolean inside = false;
            for (byte one : text) {
                boolean letter = one != ' ' && one != (byte) round;
                if (letter && !inside) words++;
                inside = letter;
            }
        }
        sink = words;
    }

    static void multiply_matrix(long rounds) {
        double[] a = new double[64], b = new double[64], c = new double[64];
        for (int i = 0; i < 64; i++) { a[i] = i + 1; b[i] = 1.0 / (i + 1); }
        for (long round = 0; round < rounds; round++) {
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++) {
                    double sum = 0;
                    for (int k = 0; k < 8; k++) sum += a[i * 8 + k] * b[k * 8 + j];
                    c[i * 8 + j] = sum;
                }
            b[(int) (round % 64)] = c[(int) ((round + 9) % 64)] * 1e-3;
        }
        sink = (long) c[3];
    }

    static void parse_numbers(long rounds) {
        long sum = 0;
        for (long round = 0; round < rounds; round++) {
            long number = 0;
            for (byte letter : text) {
                if (letter >= 'a' && letter <= 'z') number = number * 10 + (letter - 'a');
                else { sum += number % (round + 3); number = 0; }
            }
        }
        sink = sum;
    }

    static void compact_store(long rounds) {
        for (long round = 0; round < rounds; round++)
            for (int i = 8; i < 512; i++) store[i - 8] = store[i] * 6364136223846793005L + round;
    }

    static void call(String function, long rounds) {
        switch (function) {
            case "sort_records" -> sort_records(rounds);
            case "hash_blocks" -> hash_blocks(rounds);
            case "scan_text" -> scan_text(rounds);
            case "multiply_matrix" -> multiply_matrix(rounds);
            case "parse_numbers" -> parse_numbers(rounds);
            case "compact_store" -> compact_store(rounds);
            default -> throw new IllegalArgumentException(function);
        }
    }

    // Rounds in a microsecond, so that a plan may say how long; afterwards the same rounds are always done.
    static final class Work {
        final String function;
        final long ns, rounds;

        Work(String inside, String function, String us) {
            ns = Long.parseLong(us) * 1000;
            this.function = inside.equals("burn") ? function : null;
            double best = 0;
            for (int tries = 0; this.function != null && tries < 20; tries++)
                for (long count = 256;; count *= 2) {
                    long began = cpu();
                    call(function, count);
                    long took = cpu() - began;
                    if (took < 2_000_000) continue;
                    best = Math.max(best, (double) count / took);
                    break;
                }
            rounds = Math.max(1, (long) (best * ns));
        }

        // Does the work; how much later than asked it was done for want of a CPU, ns.
        long run() {
            if (function != null) {
                call(function, rounds);
                return 0;
            }
            return pause(ns);
        }
    }

    // Sleeps; parkNanos, as Thread.sleep knows whole milliseconds here.
    static long pause(long ns) {
        long until = wall() + ns;
        for (long left = ns; left > 0; left = until - wall()) LockSupport.parkNanos(left);
        return wall() - until;
    }

    // ---- steps ----

    static final class Step {
        String kind;
        int column, index, turns, bytes, gapUs;
        boolean flag;
        FileChannel file;
        Work work;
        Semaphore slots;
        final AtomicLong freed = new AtomicLong();
    }

    // One connection with what it asks of others, and its side of the account.
    static final class Connection extends Thread {
        final Socket socket;
        final Map<Integer, Socket[]> peers = new HashMap<>();
        final int[] row = new int[FIXED + 3 * columns];
        final byte[] message = new byte[8], stat = new byte[96];
        final ByteBuffer buffer = ByteBuffer.allocateDirect((1 << 20) + 4096).alignedSlice(4096);
        OutputStream out;
        byte[] head;
        RandomAccessFile schedstat;

        Connection(Socket socket) {
            super("connection");
            this.socket = socket;
        }

        void note(int column, long fromWall, long fromCpu, long toWall, long toCpu, long late) {
            int cell = FIXED + 3 * column;
            row[cell] += (int) (toWall - fromWall);
            row[cell + 1] += (int) (toCpu - fromCpu);
            row[cell + 2] += (int) Math.max(late, 0);
        }

        long ask(Socket[] asked, int from, int to) throws IOException {
            for (int i = from; i < to; i++) asked[i].getOutputStream().write(message);
            long last = 0;
            for (int i = from; i < to; i++) {
                byte[] answer = asked[i].getInputStream().readNBytes(8);
                last = Math.max(last, ByteBuffer.wrap(answer).order(ByteOrder.LITTLE_ENDIAN).getLong());
            }
            return wall() - last;
        }

        void within(Step step, long fromWall, long fromCpu, long free) {
            long heldWall = wall(), heldCpu = cpu();
            note(step.column, fromWall, fromCpu, heldWall, heldCpu, free > fromWall ? heldWall - free : 0);
            long late = step.work.run();
            note(step.column + 1, heldWall, heldCpu, wall(), cpu(), late);
        }

        // How long this thread has been ready without a CPU, ns: the second number of its schedstat.
        long readyNs() throws IOException {
            schedstat.seek(0);
            int got = schedstat.read(stat, 0, stat.length);
            return got <= 0 ? 0 : Long.parseLong(new String(stat, 0, got).split(" ")[1]);
        }

        void step(Step step) throws Exception {
            // A disk has no stamp of its own that says when it was done; the kernel knows how long the thread stood in line.
            boolean disk = step.kind.equals("log") && step.turns > 0 || step.kind.equals("file") && !step.flag;
            long ready = disk ? readyNs() : 0;
            long fromWall = wall(), fromCpu = cpu(), late = 0;
            switch (step.kind) {
                case "burn", "sleep" -> late = step.work.run();
                case "lock" -> {
                    locks[step.index].lock();
                    try {
                        within(step, fromWall, fromCpu, released[step.index]);
                    } finally {
                        released[step.index] = wall();
                        locks[step.index].unlock();
                    }
                    return;
                }
                case "slot" -> {
                    step.slots.acquire();
                    try {
                        within(step, fromWall, fromCpu, step.freed.get());
                    } finally {
                        step.freed.set(wall());
                        step.slots.release();
                    }
                    return;
                }
                case "upstream" -> {
                    Socket[] asked = peers.get(step.index);
                    if (step.flag) late = ask(asked, 0, step.turns);
                    else for (int i = 0; i < step.turns; i++) late += ask(asked, 0, 1);
                }
                case "file" -> {
                    buffer.clear().limit(step.bytes);
                    for (long at = 0; buffer.hasRemaining(); ) {
                        int got = step.file.read(buffer, at);
                        if (got <= 0) break;
                        at += got;
                    }
                }
                case "log" -> {
                    for (int i = 0; i < Math.max(1, step.turns); i++) {
                        log.write(ByteBuffer.wrap(body, 0, step.bytes));
                        if (step.turns > 0) log.force(false);
                    }
                }
                case "allocate" -> {
                    byte[] fresh = new byte[step.bytes];
                    for (int at = 0; at < fresh.length; at += 4096) fresh[at] = 1;
                    kept = fresh;
                }
                case "pieces" -> {
                    out.write(head);
                    for (int i = 0; i < step.bytes; i++) {
                        if (i > 0 && step.gapUs > 0) late += pause(step.gapUs * 1000L);
                        out.write(body, 0, responseBytes / step.bytes);
                    }
                }
                default -> throw new IllegalArgumentException(step.kind);
            }
            long toWall = wall(), toCpu = cpu();
            note(step.column, fromWall, fromCpu, toWall, toCpu, disk ? readyNs() - ready : late);
        }

        void publish() {
            synchronized (rows) {
                int at = (int) (next % capacity) * row.length;
                for (int i = 0; i < row.length; i++) rows.put(at + i, row[i]);
                header.putLong(0, ++next);
            }
        }

        void answer(byte[] whole) throws Exception {
            long fromWall = wall(), fromCpu = cpu();
            Arrays.fill(row, 0);
            if (stallColumn >= 0) {
                gate.readLock().lock();
                gate.readLock().unlock();
                note(stallColumn, fromWall, fromCpu, wall(), cpu(), 0);
            }
            boolean pieces = false;
            for (Step step : steps) {
                pieces |= step.kind.equals("pieces");
                step(step);
            }
            if (!pieces) out.write(whole);
            long doneWall = wall();
            row[0] = (int) doneWall;
            row[1] = (int) (doneWall >>> 32);
            row[2] = UNKNOWN;
            row[3] = (int) (doneWall - fromWall);
            row[4] = (int) (cpu() - fromCpu);
            publish();
        }

        @Override
        public void run() {
            try (socket) {
                socket.setTcpNoDelay(true);
                // Opened by the thread itself: the file is that of whoever opens it.
                schedstat = new RandomAccessFile("/proc/thread-self/schedstat", "r");
                for (Step step : steps)
                    if (step.kind.equals("upstream")) peers.put(step.index, connect(upstreams.get(step.index), step.turns));
                out = socket.getOutputStream();
                head = ("HTTP/1.1 200 OK\r\nContent-Length: " + responseBytes + "\r\n\r\n").getBytes();
                byte[] whole = Arrays.copyOf(head, head.length + responseBytes);
                System.arraycopy(body, 0, whole, head.length, responseBytes);
                byte[] request = new byte[4096];
                InputStream in = socket.getInputStream();
                for (int length = 0, got; (got = in.read(request, length, request.length - length)) > 0; ) {
                    length += got;
                    if (length >= 4 && request[length - 1] == '\n' && request[length - 3] == '\n') {
                        answer(whole);
                        length = 0;
                    }
                }
            } catch (Exception error) {
                if (!(error instanceof IOException)) error.printStackTrace();
            } finally {
                close(schedstat);
                for (Socket[] all : peers.values()) for (Socket one : all) close(one);
            }
        }
    }

    static void close(Closeable one) {
        try {
            if (one != null) one.close();
        } catch (IOException ignored) {
            // It is gone.
        }
    }

    static Socket[] connect(int port, int count) throws IOException {
        Socket[] sockets = new Socket[count];
        for (int i = 0; i < count; i++) {
            sockets[i] = new Socket(InetAddress.getLoopbackAddress(), port);
            sockets[i].setTcpNoDelay(true);
        }
        return sockets;
    }

    // ---- the plan ----

    static void readStep(String[] words) throws IOException {
        Step step = new Step();
        step.kind = words[1];
        step.column = Integer.parseInt(words[2]);
        switch (step.kind) {
            case "burn" -> step.work = new Work("burn", words[3], words[4]);
            case "sleep" -> step.work = new Work("sleep", "-", words[3]);
            case "lock" -> {
                step.index = Integer.parseInt(words[3]);
                step.work = new Work(words[4], words[5], words[6]);
            }
            case "slot" -> {
                step.slots = new Semaphore(Integer.parseInt(words[3]), true);
                step.work = new Work(words[4], words[5], words[6]);
            }
            case "upstream" -> {
                step.index = Integer.parseInt(words[3]);
                step.turns = Integer.parseInt(words[4]);
                step.flag = words[5].equals("1");
            }
            case "file" -> {
                step.bytes = Integer.parseInt(words[4]);
                step.file = words[5].equals("1")
                    ? FileChannel.open(Path.of(words[3]), StandardOpenOption.READ)
                    : FileChannel.open(Path.of(words[3]), StandardOpenOption.READ, ExtendedOpenOption.DIRECT);
            }
            case "log" -> {
                step.bytes = Integer.parseInt(words[3]);
                step.turns = Integer.parseInt(words[4]);
            }
            case "allocate" -> step.bytes = Integer.parseInt(words[3]);
            case "pieces" -> {
                step.bytes = Integer.parseInt(words[3]);
                step.gapUs = Integer.parseInt(words[4]);
            }
            default -> throw new IllegalArgumentException(step.kind);
        }
        steps.add(step);
    }

    static void readPlan(String path) throws IOException {
        for (String line : Files.readAllLines(Path.of(path))) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "port" -> port = Integer.parseInt(words[1]);
                case "response" -> responseBytes = Integer.parseInt(words[1]);
                case "columns" -> columns = Integer.parseInt(words[1]);
                case "records" -> {
                    FileChannel file = FileChannel.open(Path.of(words[1]), StandardOpenOption.READ, StandardOpenOption.WRITE);
                    header = file.map(FileChannel.MapMode.READ_WRITE, 0, file.size());
                    header.order(ByteOrder.LITTLE_ENDIAN);
                    header.load();
                    rows = header.position(HEADER).slice().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer();
                    capacity = Long.parseLong(words[2]);
                }
                case "log" -> log = FileChannel.open(Path.of(words[1]), StandardOpenOption.CREATE,
                                                     StandardOpenOption.WRITE, StandardOpenOption.APPEND);
                case "upstream" -> upstreams.put(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                case "stall" -> {
                    stallEveryMs = Long.parseLong(words[1]);
                    stallWork = new Work(words[3], words[4], words[2]);
                    stallColumn = Integer.parseInt(words[5]);
                }
                case "step" -> readStep(words);
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    static void stallForEver() {
        for (;;) {
            pause(stallEveryMs * 1_000_000);
            gate.writeLock().lock();
            long from = wall(), fromCpu = cpu();
            stallWork.run();
            long to = wall(), ran = cpu() - fromCpu;
            gate.writeLock().unlock();
            int slot = 16 + 24 * (int) (stallCount % STALLS);
            header.putLong(slot, from);
            header.putLong(slot + 8, to);
            header.putLong(slot + 16, ran);
            header.putLong(8, ++stallCount);
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < locks.length; i++) locks[i] = new ReentrantLock();
        for (int i = 0; i < text.length; i++) text[i] = (byte) (i % 7 == 6 ? ' ' : 'a' + i % 26);
        Arrays.fill(body, (byte) 'x');
        readPlan(arguments[0]);
        if (stallEveryMs > 0) new Thread(PlanServer::stallForEver, "stall").start();
        try (ServerSocket listener = new ServerSocket(port, 1024, InetAddress.getLoopbackAddress())) {
            for (;;) new Connection(listener.accept()).start();
        }
    }
}
