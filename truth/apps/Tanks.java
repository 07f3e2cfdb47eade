import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicInteger;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Tanks and their readings in HSQLDB within the process, on Jetty: Tanks PORT DIRECTORY PROPERTIES SUPPLIER_PORT [INDEX]. */
public class Tanks extends AbstractHandler {
    private static final int READINGS = 100_000, TANKS = 600, COUNTERS = 64;

    private final String url;
    private final String supplier;
    private final AtomicInteger next = new AtomicInteger();
    private final ThreadLocal<Connection> own = ThreadLocal.withInitial(this::connect);

    Tanks(String directory, String properties, String port) {
        url = "jdbc:hsqldb:file:" + directory + "/tanks;" + properties;
        supplier = "http://127.0.0.1:" + port + "/tanks/";
    }

    private Connection connect() {
        try {
            return DriverManager.getConnection(url, "SA", "");
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Tables as they have grown; of readings only `id` has an index, unless another is asked for. */
    private void fill(boolean indexed) throws SQLException {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            statement.execute("create table readings (id int primary key, tank int, level int, note varchar(400))");
            statement.execute("create table counters (id int primary key, n int)");
            connection.setAutoCommit(false);
            try (PreparedStatement reading = connection.prepareStatement("insert into readings values (?, ?, ?, ?)")) {
                for (int n = 0; n < READINGS; n++) {
                    reading.setInt(1, n);
                    reading.setInt(2, n % TANKS);
                    reading.setInt(3, n % 997);
                    reading.setString(4, "read by gauge " + n % 31 + ", open and shut");
                    reading.addBatch();
                }
                reading.executeBatch();
            }
            for (int n = 0; n < COUNTERS; n++) {
                statement.execute("insert into counters values (" + n + ", 0)");
            }
            connection.commit();
            if (indexed) {
                statement.execute("create index readings_of on readings (tank)");
            }
            connection.commit();
            connection.setAutoCommit(true);
            statement.execute("checkpoint");
        }
    }

    private int turn(int of) {
        return Math.floorMod(next.getAndIncrement() * 7, of);
    }

    /** How often a tank was read, and its highest level. */
    private String readings() throws SQLException {
        try (PreparedStatement query = own.get().prepareStatement("select count(*), max(level) from readings where tank = ?")) {
            query.setInt(1, turn(TANKS));
            try (ResultSet rows = query.executeQuery()) {
                rows.next();
                return rows.getInt(1) + " " + rows.getInt(2) + "\n";
            }
        }
    }

    /** A gauge's new level; a protocol of the gauge comes with it. */
    private String level() throws SQLException {
        try (PreparedStatement change = own.get().prepareStatement("update readings set level = ?, note = ? where id = ?")) {
            int id = turn(READINGS);
            change.setInt(1, id % 991);
            change.setString(2, "read by gauge " + id % 31 + ": " + "closed, opened, closed again; ".repeat(10));
            change.setInt(3, id);
            return change.executeUpdate() + "\n";
        }
    }

    /** An order is counted, and the supplier asked within its transaction. */
    private String order() throws SQLException, IOException {
        Connection connection = own.get();
        connection.setAutoCommit(false);
        try (PreparedStatement change = connection.prepareStatement("update counters set n = n + 1 where id = ?")) {
            int id = turn(COUNTERS);
            change.setInt(1, id);
            change.executeUpdate();
            String answer = askSupplier(id);
            connection.commit();
            return answer + "\n";
        } finally {
            connection.setAutoCommit(true);
        }
    }

    private String askSupplier(int id) throws IOException {
        try (InputStream answer = new URL(supplier + id).openStream()) {
            return new String(answer.readAllBytes());
        }
    }

    private String page(String target) throws SQLException, IOException {
        return switch (target) {
            case "/order" -> order();
            case "/level" -> level();
            default -> readings();
        };
    }

    @Override
    public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
            throws IOException {
        base.setHandled(true);
        response.setContentType("text/plain");
        try {
            response.getWriter().write(page(target));
        } catch (SQLException error) {
            throw new IOException(error);
        }
    }

    public static void main(String[] args) throws Exception {
        Tanks tanks = new Tanks(args[1], args[2], args[3]);
        tanks.fill(args.length > 4);
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        server.addConnector(connector);
        server.setHandler(tanks);
        server.start();
        server.join();
    }
}
