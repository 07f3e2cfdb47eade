import java.io.IOException;
import java.io.OutputStream;
import java.io.StringReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HashMap;
import java.util.Map;
import javax.xml.parsers.DocumentBuilder;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.xpath.XPathExpression;
import javax.xml.xpath.XPathExpressionException;
import javax.xml.xpath.XPathFactory;
import org.apache.commons.dbcp2.BasicDataSource;
import org.simpleframework.http.Request;
import org.simpleframework.http.Response;
import org.simpleframework.http.core.Container;
import org.simpleframework.http.core.ContainerServer;
import org.simpleframework.transport.connect.SocketConnection;
import org.xml.sax.InputSource;

/** The server of the Simple framework, H2 inside the process behind a pool, and one habit: Simple PORT HABIT [SERVICE_PORT]. */
public class Simple implements Container {
    private static final byte[] ASK = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n".getBytes();
    private static final String PRICE = "/offer/valve[@id='3']/price";
    private static final String OFFER = "<offer><valve id='1'><price>7</price></valve><valve id='2'><price>8</price></valve>"
        + "<valve id='3'><price>9</price></valve></offer>";
    private static final int VALVES = 20_000;
    private static final int READINGS = 1_500_000;
    private static final int PAUSE_MS = 1000;

    private final String habit;
    private final int service;
    private final BasicDataSource pool = new BasicDataSource();
    private final Map<Integer, long[]> readings = new HashMap<>();
    private final ThreadLocal<Socket> connection = new ThreadLocal<>();
    private final ThreadLocal<XPathExpression> expression = ThreadLocal.withInitial(Simple::compiled);
    private final ThreadLocal<DocumentBuilder> keptParser = ThreadLocal.withInitial(Simple::parser);

    Simple(String habit, int service) throws SQLException {
        this.habit = habit;
        this.service = service;
        pool.setUrl("jdbc:h2:mem:valves;DB_CLOSE_DELAY=-1");
        boolean small = habit.startsWith("pool-of-two");
        pool.setMaxTotal(small ? 2 : 32);
        pool.setMaxIdle(small ? 2 : 32);
        try (Connection one = pool.getConnection(); Statement statement = one.createStatement()) {
            statement.execute("create table valves (id int primary key, name varchar, note varchar)");
            statement.execute("insert into valves select x, 'valve ' || x, repeat('open and shut ', 4) from system_range(1, "
                + VALVES + ")");
        }
    }

    private static DocumentBuilder parser() {
        try {
            return DocumentBuilderFactory.newInstance().newDocumentBuilder();
        } catch (ParserConfigurationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static XPathExpression compiled() {
        try {
            return XPathFactory.newInstance().newXPath().compile(PRICE);
        } catch (XPathExpressionException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String price(DocumentBuilder parser, XPathExpression of) throws Exception {
        parser.reset();
        return of.evaluate(parser.parse(new InputSource(new StringReader(OFFER))));
    }

    /** Over this thread's connection. */
    private String ask() throws IOException {
        Socket mine = connection.get();
        if (mine == null) {
            mine = new Socket("127.0.0.1", service);
            mine.setTcpNoDelay(true);
            connection.set(mine);
        }
        mine.getOutputStream().write(ASK);
        if (mine.getInputStream().read(new byte[4096]) < 0) {
            throw new IOException("the service closed");
        }
        return "9";
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

    private String valve() throws SQLException {
        try (Connection database = pool.getConnection()) {
            return note(database, 7);
        }
    }

    /** A valve with its price; the connection is held until all is there. */
    private String pricedWithin() throws SQLException, IOException {
        try (Connection database = pool.getConnection()) {
            return note(database, 7) + ask();
        }
    }

    private String page() throws Exception {
        return switch (habit) {
            case "price-factory-each-time" -> price(parser(), compiled());
            case "price" -> price(keptParser.get(), expression.get());
            case "pool-of-two-held" -> pricedWithin();
            case "pool-of-two" -> ask() + valve();
            default -> valve();
        };
    }

    @Override
    public void handle(Request request, Response response) {
        try (OutputStream out = response.getOutputStream()) {
            byte[] body = page().getBytes();
            response.set("Content-Type", "text/plain");
            response.setContentLength(body.length);
            out.write(body);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** What the valves showed is kept; somebody wants the memory back that nothing needs any more. */
    private void tidied() throws InterruptedException {
        for (int n = 0; n < READINGS; n++) {
            readings.put(n, new long[2]);
        }
        Thread tidying = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(PAUSE_MS);
                } catch (InterruptedException end) {
                    return;
                }
                if (habit.equals("tidied")) {
                    System.gc();
                }
            }
        }, "tidying");
        tidying.setDaemon(true);
        tidying.start();
    }

    public static void main(String[] values) throws Exception {
        Simple app = new Simple(values[1], values.length > 2 ? Integer.parseInt(values[2]) : 0);
        if (app.habit.startsWith("tidied")) {
            app.tidied();
        }
        InetSocketAddress where = new InetSocketAddress(InetAddress.getByName("127.0.0.1"), Integer.parseInt(values[0]));
        new SocketConnection(new ContainerServer(app, 32)).connect(where);
    }
}
