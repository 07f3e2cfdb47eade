import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The JDK's own HTTP server with one habit: JdkHttp PORT HABIT [PORT OF WHAT IT ASKS]. */
public class JdkHttp {
    private static final byte[] TEXT = "x".repeat(1024).getBytes();
    private static final byte[] ASK = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n".getBytes();
    private static final Logger LOG = LoggerFactory.getLogger(JdkHttp.class);
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public record Place(String hall, int shelf) { }

    public record Valve(int id, String name, boolean open, double bar, Place place) { }

    public record Page(String title, List<Valve> valves) { }

    private final int port;
    private final ThreadLocal<Socket> service = new ThreadLocal<>();
    private final ThreadLocal<Connection> database = new ThreadLocal<>();

    JdkHttp(int port) {
        this.port = port;
    }

    private byte[] work(String habit) throws IOException, SQLException {
        return switch (habit) {
            case "mapper-each-time" -> new ObjectMapper().writeValueAsBytes(page());
            case "mapper-kept" -> MAPPER.writeValueAsBytes(page());
            case "asks", "asks-in-the-dispatcher" -> ask();
            case "logs" -> logged();
            case "whole-table" -> firstOf("select id, name, note from valves order by id");
            case "first-rows" -> firstOf("select id, name, note from valves order by id limit 20");
            default -> TEXT;
        };
    }

    private static Page page() {
        List<Valve> valves = new ArrayList<>();
        for (int id = 0; id < 8; id++) {
            valves.add(new Valve(id, "valve " + id, id % 2 == 0, id * 1.5, new Place("east", id)));
        }
        return new Page("Valves", valves);
    }

    /** Over this thread's connection. */
    private byte[] ask() throws IOException {
        Socket mine = service.get();
        if (mine == null) {
            mine = new Socket("127.0.0.1", port);
            mine.setTcpNoDelay(true);
            service.set(mine);
        }
        mine.getOutputStream().write(ASK);
        if (mine.getInputStream().read(new byte[4096]) < 0) {
            throw new IOException("the service closed");
        }
        return TEXT;
    }

    private static byte[] logged() {
        for (int step = 0; step < 5; step++) {
            LOG.info("step {} of the order is done", step);
        }
        return TEXT;
    }

    /** Shows twenty rows of what the query gives. */
    private byte[] firstOf(String query) throws SQLException, IOException {
        if (database.get() == null) {
            database.set(DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + port + "/postgres?user=truth"));
        }
        List<String> names = new ArrayList<>();
        try (Statement statement = database.get().createStatement(); ResultSet rows = statement.executeQuery(query)) {
            while (names.size() < 20 && rows.next()) {
                names.add(rows.getString("name"));
            }
        }
        return MAPPER.writeValueAsBytes(names);
    }

    private void respond(HttpExchange exchange, String habit) throws IOException {
        try (exchange) {
            byte[] body = work(habit);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (SQLException error) {
            throw new IOException(error);
        }
    }

    public static void main(String[] values) throws IOException {
        String habit = values[1];
        JdkHttp app = new JdkHttp(values.length > 2 ? Integer.parseInt(values[2]) : 0);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(values[0])), 128);
        server.createContext("/", exchange -> app.respond(exchange, habit));
        // Without an executor the thread that reads requests handles them as well.
        if (!habit.equals("asks-in-the-dispatcher")) {
            server.setExecutor(Executors.newFixedThreadPool(32));
        }
        server.start();
    }
}
