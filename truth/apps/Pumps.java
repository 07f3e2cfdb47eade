import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** Pumps and their orders in Derby within a process, on Jetty: Pumps PORT DATABASE AGED_AT_ONCE; Pumps fill DATABASE. */
public class Pumps extends AbstractHandler {
    private static final int PUMPS = 150_000, HALLS = 40, ORDERS = 12_000, LISTED = 20, AGED_EVERY_S = 2;

    // The database is encrypted as it was on machines that are carried about.
    private static final String BOOT = ";bootPassword=open-and-shut";

    private final String url;
    private final AtomicInteger next = new AtomicInteger();
    private final ThreadLocal<Connection> own = ThreadLocal.withInitial(this::connect);

    Pumps(String database) {
        url = "jdbc:derby:" + database + BOOT;
    }

    private Connection connect() {
        try {
            return DriverManager.getConnection(url);
        } catch (SQLException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Tables as they have grown; pages of the pumps take 40 MB. */
    private static void fill(String database) throws SQLException {
        String create = "jdbc:derby:" + database + ";create=true;dataEncryption=true" + BOOT;
        try (Connection connection = DriverManager.getConnection(create);
             Statement statement = connection.createStatement()) {
            statement.execute("create table pumps (id int constraint numbered primary key, hall int, name varchar(40), "
                + "note varchar(600))");
            statement.execute("create table orders (id int primary key, hall int, age int, text varchar(200))");
            connection.setAutoCommit(false);
            try (PreparedStatement pump = connection.prepareStatement("insert into pumps values (?, ?, ?, ?)")) {
                for (int n = 0; n < PUMPS; n++) {
                    pump.setInt(1, n);
                    pump.setInt(2, n % HALLS);
                    pump.setString(3, "pump " + n);
                    pump.setString(4, ("serviced by fitter " + n % 31 + ", started and stopped; ").repeat(5));
                    pump.executeUpdate();
                }
            }
            try (PreparedStatement order = connection.prepareStatement("insert into orders values (?, ?, 0, ?)")) {
                for (int n = 0; n < ORDERS; n++) {
                    order.setInt(1, n);
                    order.setInt(2, n % HALLS);
                    order.setString(3, ("order " + n + " of a seal; ").repeat(6));
                    order.executeUpdate();
                }
            }
            statement.execute("create index orders_of on orders (hall, id desc)");
            connection.commit();
        }
        try {
            DriverManager.getConnection("jdbc:derby:" + database + ";shutdown=true");
        } catch (SQLException stopped) {
            // That it was stopped is said by an exception.
        }
    }

    /** Every page is looked at once before the first visitor comes. */
    private void warm() throws SQLException {
        try (Statement statement = own.get().createStatement()) {
            for (String text : new String[] {"select max(note) from pumps", "select max(text) from orders",
                    "select count(*) from pumps --derby-properties constraint=numbered\n where id >= 0"}) {
                try (ResultSet rows = statement.executeQuery(text)) {
                    rows.next();
                }
            }
        }
    }

    /** All orders are a bit older, so many of them in a transaction. */
    private void age(int atOnce) {
        try (PreparedStatement change = own.get().prepareStatement("update orders set age = age + 1 where id >= ? and id < ?")) {
            for (int from = 0; from < ORDERS; from += atOnce) {
                change.setInt(1, from);
                change.setInt(2, from + atOnce);
                change.executeUpdate();
            }
        } catch (SQLException error) {
            error.printStackTrace();
        }
    }

    private int turn(int of) {
        return Math.floorMod(next.getAndIncrement() * 7919, of);
    }

    /** A pump by a statement whose text holds its number. */
    private String pumpByText() throws SQLException {
        int id = turn(PUMPS);
        try (Statement query = own.get().createStatement();
             ResultSet rows = query.executeQuery("select name, note from pumps where id = " + id + " and hall = " + id % HALLS)) {
            rows.next();
            return rows.getString(1) + ": " + rows.getString(2) + "\n";
        }
    }

    private String pump() throws SQLException {
        int id = turn(PUMPS);
        try (PreparedStatement query = own.get().prepareStatement("select name, note from pumps where id = ? and hall = ?")) {
            query.setInt(1, id);
            query.setInt(2, id % HALLS);
            try (ResultSet rows = query.executeQuery()) {
                rows.next();
                return rows.getString(1) + ": " + rows.getString(2) + "\n";
            }
        }
    }

    /** Pumps from all over the table. */
    private String list() throws SQLException {
        StringBuilder said = new StringBuilder();
        try (PreparedStatement query = own.get().prepareStatement("select name from pumps where id = ?")) {
            for (int n = 0; n < LISTED; n++) {
                query.setInt(1, turn(PUMPS));
                try (ResultSet rows = query.executeQuery()) {
                    rows.next();
                    said.append(rows.getString(1)).append('\n');
                }
            }
        }
        return said.toString();
    }

    /** The newest orders of a hall. */
    private String orders() throws SQLException {
        StringBuilder said = new StringBuilder();
        String text = "select id, text from orders where hall = ? order by id desc fetch first 5 rows only";
        try (PreparedStatement query = own.get().prepareStatement(text)) {
            query.setInt(1, turn(HALLS));
            try (ResultSet rows = query.executeQuery()) {
                while (rows.next()) {
                    said.append(rows.getInt(1)).append(' ').append(rows.getString(2)).append('\n');
                }
            }
        }
        return said.toString();
    }

    private String page(String target) throws SQLException {
        return switch (target) {
            case "/pump-by-text" -> pumpByText();
            case "/pump" -> pump();
            case "/list" -> list();
            default -> orders();
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
        if (args[0].equals("fill")) {
            fill(args[1]);
            return;
        }
        Pumps pumps = new Pumps(args[1]);
        pumps.warm();
        int atOnce = Integer.parseInt(args[2]);
        ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
        if (atOnce > 0) {
            clock.scheduleWithFixedDelay(() -> pumps.age(atOnce), AGED_EVERY_S, AGED_EVERY_S, TimeUnit.SECONDS);
        }
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        server.addConnector(connector);
        server.setHandler(pumps);
        server.start();
        server.join();
    }
}
