import com.mchange.v2.c3p0.ComboPooledDataSource;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import org.apache.catalina.Context;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;

/** Orders in PostgreSQL behind c3p0, in a small Tomcat: Orders PORT DIRECTORY HABIT DATABASE_PORT [SERVICE_PORT]. */
public class Orders extends HttpServlet {
    private static final int LOOKUPS = 5;

    private final String habit;
    private final transient ComboPooledDataSource pool = new ComboPooledDataSource();
    private final transient HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final transient HttpRequest price;

    Orders(String habit, String database, String service) throws Exception {
        this.habit = habit;
        price = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + service + "/bytes/16")).build();
        pool.setDriverClass("org.postgresql.Driver");
        pool.setJdbcUrl("jdbc:postgresql://127.0.0.1:" + database + "/postgres");
        pool.setUser("truth");
        pool.setMinPoolSize(16);
        pool.setMaxPoolSize(32);
        if (habit.startsWith("tested")) {
            pool.setTestConnectionOnCheckout(true);
        }
        if (habit.equals("tested-by-query")) {
            pool.setPreferredTestQuery("select 1");
        }
    }

    private static String note(Connection database, int id) throws SQLException {
        try (PreparedStatement query = database.prepareStatement("select note from valves where id = ?")) {
            query.setInt(1, id);
            try (ResultSet rows = query.executeQuery()) {
                rows.next();
                return rows.getString(1);
            }
        }
    }

    /** The next number of an order: invoices may have no gaps, so it is a row and no sequence. */
    private static int number(Connection database) throws SQLException {
        String next = "update counters set n = n + 1 where id = 1 returning n";
        try (PreparedStatement query = database.prepareStatement(next); ResultSet rows = query.executeQuery()) {
            rows.next();
            return rows.getInt(1);
        }
    }

    private String ask() throws IOException, InterruptedException {
        return client.send(price, BodyHandlers.ofString()).body();
    }

    /** Each part of a page takes a connection of its own, and gives it back. */
    private String valves() throws SQLException {
        StringBuilder page = new StringBuilder();
        for (int id = 1; id <= LOOKUPS; id++) {
            try (Connection database = pool.getConnection()) {
                page.append(note(database, id * 7)).append('\n');
            }
        }
        return page.toString();
    }

    /** What a valve costs today; no connection is held meanwhile. */
    private String offer() throws SQLException, IOException, InterruptedException {
        String text;
        try (Connection database = pool.getConnection()) {
            text = note(database, 7);
        }
        return text + ask() + "\n";
    }

    /** The order of a valve: a number, a price that another service knows, and what the valve is. */
    private String order(boolean numberFirst) throws SQLException, IOException, InterruptedException {
        try (Connection database = pool.getConnection()) {
            database.setAutoCommit(false);
            int number = numberFirst ? number(database) : 0;
            String text = note(database, 7) + ask();
            if (!numberFirst) {
                number = number(database);
            }
            database.commit();
            return number + " " + text + "\n";
        }
    }

    private String page() throws SQLException, IOException, InterruptedException {
        return switch (habit) {
            case "offer" -> offer();
            case "number-first" -> order(true);
            case "number-last" -> order(false);
            default -> valves();
        };
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
            response.setContentType("text/plain");
            response.getWriter().write(page());
        } catch (SQLException error) {
            throw new IOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] args) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(args[1]);
        Connector connector = new Connector();
        connector.setPort(Integer.parseInt(args[0]));
        connector.setProperty("address", "127.0.0.1");
        connector.setProperty("maxKeepAliveRequests", "1000");
        connector.setProperty("maxConnections", System.getProperty("connections", "8192"));
        tomcat.setConnector(connector);
        Context context = tomcat.addContext("", args[1]);
        Tomcat.addServlet(context, "orders", new Orders(args[2], args[3], args.length > 4 ? args[4] : "0"));
        context.addServletMappingDecoded("/", "orders");
        tomcat.start();
        tomcat.getServer().await();
    }
}
