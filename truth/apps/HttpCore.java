import com.github.benmanes.caffeine.cache.Cache;
import com.github.benmanes.caffeine.cache.Caffeine;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.logging.FileHandler;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.apache.http.HttpRequest;
import org.apache.http.HttpResponse;
import org.apache.http.config.SocketConfig;
import org.apache.http.entity.ByteArrayEntity;
import org.apache.http.entity.ContentType;
import org.apache.http.impl.bootstrap.HttpServer;
import org.apache.http.impl.bootstrap.ServerBootstrap;
import org.apache.http.protocol.HttpContext;

/** The server of Apache's HttpCore with one habit: HttpCore PORT HABIT [SERVICE_PORT | LOG_FILE]. */
public class HttpCore {
    private static final byte[] ASK = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n".getBytes();
    private static final byte[] BODY = "x".repeat(1024).getBytes();
    private static final int VALVES = 120_000;
    private static final int SHOWN = 40;
    private static final Logger LOG = Logger.getLogger(HttpCore.class.getName());

    private final String habit;
    private final String more;
    private final ThreadLocal<Socket> connection = new ThreadLocal<>();
    private final Cache<Object, byte[]> prices = Caffeine.newBuilder().maximumSize(10_000).build();
    private final ReadWriteLock indexLock = new ReentrantReadWriteLock();
    private final Map<String, Integer> index = new TreeMap<>();
    private volatile Map<String, Integer> published = Map.of();

    /** What a price is asked for. */
    static final class Wanted {
        private final String hall;
        private final int valve;

        Wanted(String hall, int valve) {
            this.hall = hall;
            this.valve = valve;
        }

        @Override
        public String toString() {
            return hall + "/" + valve;
        }
    }

    /** The same with the equality of its parts. */
    record Price(String hall, int valve) {
    }

    HttpCore(String habit, String more) {
        this.habit = habit;
        this.more = more;
    }

    /** Over this thread's connection. */
    private byte[] ask() {
        try {
            Socket mine = connection.get();
            if (mine == null) {
                mine = new Socket("127.0.0.1", Integer.parseInt(more));
                mine.setTcpNoDelay(true);
                connection.set(mine);
            }
            mine.getOutputStream().write(ASK);
            if (mine.getInputStream().read(new byte[4096]) < 0) {
                throw new IOException("the service closed");
            }
            return BODY;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void fill(Map<String, Integer> index) {
        for (int n = 0; n < VALVES; n++) {
            index.put("valve " + n * 7919L % VALVES, n);
        }
    }

    /** The index of valves is read from where they are kept each second; nobody may see half of it. */
    private void indexInPlace() {
        indexLock.writeLock().lock();
        try {
            index.clear();
            fill(index);
        } finally {
            indexLock.writeLock().unlock();
        }
    }

    /** The same, shown when it is whole. */
    private void indexAside() {
        Map<String, Integer> made = new TreeMap<>();
        fill(made);
        published = made;
    }

    private byte[] found() {
        indexLock.readLock().lock();
        try {
            return index.containsKey("valve 7") ? BODY : new byte[0];
        } finally {
            indexLock.readLock().unlock();
        }
    }

    private byte[] logged() {
        for (int n = 0; n < SHOWN; n++) {
            LOG.fine("valve " + n + " is open and shut");
        }
        return BODY;
    }

    private byte[] page() {
        return switch (habit) {
            case "price-of-object" -> prices.get(new Wanted("east", 7), wanted -> ask());
            case "price" -> prices.get(new Price("east", 7), wanted -> ask());
            case "index-in-place" -> found();
            case "index-aside" -> published.containsKey("valve 7") ? BODY : new byte[0];
            case "log-fine", "log-info" -> logged();
            default -> BODY;
        };
    }

    private void handle(HttpRequest request, HttpResponse response, HttpContext context) {
        response.setEntity(new ByteArrayEntity(page(), ContentType.TEXT_PLAIN));
    }

    private void prepare() throws IOException {
        if (habit.startsWith("log")) {
            System.setProperty("java.util.logging.SimpleFormatter.format", "%1$tF %1$tT %4$s %2$s %5$s%n");
            FileHandler file = new FileHandler(more);
            file.setFormatter(new SimpleFormatter());
            file.setLevel(Level.ALL);
            LOG.setUseParentHandlers(false);
            LOG.addHandler(file);
            LOG.setLevel(habit.equals("log-fine") ? Level.FINE : Level.INFO);
        }
        if (habit.startsWith("index")) {
            ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor(work -> {
                Thread thread = new Thread(work, "indexing");
                thread.setDaemon(true);
                return thread;
            });
            Runnable made = habit.equals("index-in-place") ? this::indexInPlace : this::indexAside;
            clock.scheduleAtFixedRate(made, 0, 1, TimeUnit.SECONDS);
        }
    }

    public static void main(String[] values) throws Exception {
        HttpCore app = new HttpCore(values[1], values.length > 2 ? values[2] : "");
        app.prepare();
        SocketConfig sockets = SocketConfig.custom().setTcpNoDelay(true).setBacklogSize(128).setSoTimeout(60_000)
            .build();
        HttpServer server = ServerBootstrap.bootstrap().setLocalAddress(InetAddress.getByName("127.0.0.1"))
            .setListenerPort(Integer.parseInt(values[0])).setSocketConfig(sockets)
            .registerHandler("*", app::handle).create();
        server.start();
        server.awaitTermination(Long.MAX_VALUE, TimeUnit.DAYS);
    }
}
