import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import javax.persistence.Column;
import javax.persistence.Entity;
import javax.persistence.EntityManager;
import javax.persistence.EntityManagerFactory;
import javax.persistence.Id;
import javax.persistence.Persistence;
import javax.persistence.Table;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** A stock of valves in PostgreSQL by JPA (EclipseLink), on Jetty: Stock PORT HABIT DATABASE_PORT. */
public class Stock extends AbstractHandler {
    private static final int ON_A_PAGE = 40, IN_A_HALL = 1000, VALVES = 20_000;

    /** A row of the table. */
    @Entity(name = "Valve")
    @Table(name = "valves")
    public static class Valve {
        @Id
        private int id;
        @Column
        private String name;
        @Column
        private String note;
    }

    private final String habit;
    private final Map<String, String> settings = new HashMap<>();
    private final EntityManagerFactory factory;
    private final AtomicInteger next = new AtomicInteger();

    Stock(String habit, String port) {
        this.habit = habit;
        settings.put("javax.persistence.jdbc.url", "jdbc:postgresql://127.0.0.1:" + port + "/postgres");
        settings.put("javax.persistence.jdbc.user", "truth");
        settings.put("eclipselink.connection-pool.default.initial", "16");
        settings.put("eclipselink.cache.shared.default", habit.equals("valves-not-shared") ? "false" : "true");
        factory = habit.equals("own-factory") ? null : Persistence.createEntityManagerFactory("stock", settings);
    }

    /** Some valves by their numbers, as a page's template asks for them. */
    private static String valves(EntityManagerFactory factory) {
        EntityManager entities = factory.createEntityManager();
        try {
            StringBuilder page = new StringBuilder();
            for (int n = 1; n <= ON_A_PAGE; n++) {
                page.append(entities.find(Valve.class, n * 7).name).append('\n');
            }
            return page.toString();
        } finally {
            entities.close();
        }
    }

    private static String valve(EntityManagerFactory factory, int id) {
        EntityManager entities = factory.createEntityManager();
        try {
            return entities.find(Valve.class, id).name + "\n";
        } finally {
            entities.close();
        }
    }

    /** How many valves of a hall are shut; none of them is changed. */
    private String hall(boolean onlyRead) {
        EntityManager entities = factory.createEntityManager();
        try {
            entities.getTransaction().begin();
            List<Valve> hall = entities.createQuery("select v from Valve v where v.id <= :last", Valve.class)
                .setParameter("last", IN_A_HALL).setHint("eclipselink.read-only", String.valueOf(onlyRead)).getResultList();
            long shut = hall.stream().filter(valve -> valve.note.endsWith("shut ")).count();
            entities.getTransaction().commit();
            return shut + "\n";
        } finally {
            entities.close();
        }
    }

    /** A valve's name by a factory of this request alone, as a tutorial has it in its main. */
    private String ownFactory() {
        EntityManagerFactory own = Persistence.createEntityManagerFactory("stock", settings);
        try {
            return valve(own, Math.floorMod(next.getAndIncrement(), VALVES) + 1);
        } finally {
            own.close();
        }
    }

    private String page() {
        return switch (habit) {
            case "hall" -> hall(false);
            case "hall-only-read" -> hall(true);
            case "own-factory" -> ownFactory();
            case "valve" -> valve(factory, Math.floorMod(next.getAndIncrement(), VALVES) + 1);
            default -> valves(factory);
        };
    }

    @Override
    public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
            throws IOException {
        base.setHandled(true);
        response.setContentType("text/plain");
        response.getWriter().write(page());
    }

    public static void main(String[] args) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(args[0]));
        server.addConnector(connector);
        server.setHandler(new Stock(args[1], args[2]));
        server.start();
        server.join();
    }
}
