import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.ConstantPendingMessageLimitStrategy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;

/**
 * A broker of ActiveMQ (broker PORT MOST_PENDING), who answers questions about stock (stock BROKER_PORT READY THREADS
 * DELAY_MS PREFETCH), who writes down what happens (audit BROKER_PORT READY DELAY_MS), and the pages that ask and tell
 * them by JMS, on Jetty (web PORT HABIT BROKER_PORT).
 */
public class Courier {
    private static final int VALVES = 20_000, WAITS_MS = 20_000, TOPIC_BYTES = 1 << 20, AUDIT_PREFETCH = 100;

    private static ActiveMQConnectionFactory factory(String port, String more) {
        ActiveMQConnectionFactory made = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + port + more);
        made.setWatchTopicAdvisories(false);
        return made;
    }

    /** Topics have a megabyte each, and of what a slow reader has not yet been sent all is kept, or so many. */
    private static void broker(String port, int mostPending) throws Exception {
        PolicyEntry topics = new PolicyEntry();
        topics.setTopic(">");
        topics.setMemoryLimit(TOPIC_BYTES);
        if (mostPending > 0) {
            ConstantPendingMessageLimitStrategy most = new ConstantPendingMessageLimitStrategy();
            most.setLimit(mostPending);
            topics.setPendingMessageLimitStrategy(most);
        }
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(List.of(topics));
        BrokerService broker = new BrokerService();
        broker.setPersistent(false);
        broker.setUseJmx(false);
        broker.setDestinationPolicy(policies);
        broker.addConnector("tcp://127.0.0.1:" + port);
        broker.start();
        broker.waitUntilStopped();
    }

    private static void rest(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void answer(Session session, MessageProducer answers, Message question, int delay) {
        rest(delay);
        try {
            TextMessage answer = session.createTextMessage(((TextMessage) question).getText() + ": 7 are there");
            answer.setJMSCorrelationID(question.getJMSCorrelationID());
            answers.send(question.getJMSReplyTo(), answer);
        } catch (JMSException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void stock(String port, String ready, int threads, int delay, String prefetch) throws Exception {
        Connection connection = factory(port, "?jms.prefetchPolicy.queuePrefetch=" + prefetch).createConnection();
        for (int n = 0; n < threads; n++) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer answers = session.createProducer(null);
            answers.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            session.createConsumer(session.createQueue("stock"))
                    .setMessageListener(question -> answer(session, answers, question, delay));
        }
        connection.start();
        Files.createFile(Path.of(ready));
    }

    private static void audit(String port, String ready, int delay) throws Exception {
        Connection connection = factory(port, "?jms.prefetchPolicy.topicPrefetch=" + AUDIT_PREFETCH).createConnection();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        session.createConsumer(session.createTopic("orders")).setMessageListener(event -> rest(delay));
        connection.start();
        Files.createFile(Path.of(ready));
    }

    /** What a thread asks and tells with: a session, with a queue of its own for answers. */
    private static class Desk {
        final Session session;
        final MessageProducer sender;
        final Destination answersTo;
        final MessageConsumer answers;

        Desk(Connection connection) throws JMSException {
            session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            sender = session.createProducer(null);
            sender.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            TemporaryQueue own = session.createTemporaryQueue();
            answersTo = own;
            answers = session.createConsumer(own);
        }

        String ask(int valve) throws JMSException {
            TextMessage question = session.createTextMessage("valve " + valve);
            question.setJMSReplyTo(answersTo);
            question.setJMSCorrelationID(Integer.toString(valve));
            sender.send(session.createQueue("stock"), question);
            TextMessage answer = (TextMessage) answers.receive(WAITS_MS);
            if (answer == null) {
                throw new JMSException("nobody answers");
            }
            return answer.getText();
        }

        void tell(int valve) throws JMSException {
            sender.send(session.createTopic("orders"), session.createTextMessage("again and again, ".repeat(30)));
        }
    }

    private static class Pages extends AbstractHandler {
        private final ActiveMQConnectionFactory factory;
        private final String habit;
        private final Connection shared;
        private final AtomicInteger next = new AtomicInteger();
        private final ThreadLocal<Desk> own = ThreadLocal.withInitial(this::desk);

        Pages(String habit, String port) throws JMSException {
            this.habit = habit;
            factory = factory(port, "");
            shared = factory.createConnection();
            shared.start();
        }

        private Desk desk() {
            try {
                return new Desk(shared);
            } catch (JMSException error) {
                throw new IllegalStateException(error);
            }
        }

        private String askOnOwnConnection(int valve) throws JMSException {
            Connection connection = factory.createConnection();
            try {
                connection.start();
                return new Desk(connection).ask(valve);
            } finally {
                connection.close();
            }
        }

        private String page() throws JMSException {
            int valve = Math.floorMod(next.getAndIncrement() * 7, VALVES);
            switch (habit) {
                case "connection-each-time":
                    return askOnOwnConnection(valve);
                case "order":
                    own.get().tell(valve);
                    return "valve " + valve + " is ordered";
                default:
                    return own.get().ask(valve);
            }
        }

        @Override
        public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
                throws IOException {
            base.setHandled(true);
            response.setContentType("text/plain");
            try {
                response.getWriter().write(page() + "\n");
            } catch (JMSException error) {
                throw new IOException(error);
            }
        }
    }

    private static void web(int port, String habit, String brokerPort) throws Exception {
        Server server = new Server();
        ServerConnector connector = new ServerConnector(server);
        connector.setHost("127.0.0.1");
        connector.setPort(port);
        server.addConnector(connector);
        server.setHandler(new Pages(habit, brokerPort));
        server.start();
        server.join();
    }

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "broker" -> broker(args[1], Integer.parseInt(args[2]));
            case "stock" -> stock(args[1], args[2], Integer.parseInt(args[3]), Integer.parseInt(args[4]), args[5]);
            case "audit" -> audit(args[1], args[2], Integer.parseInt(args[3]));
            default -> web(Integer.parseInt(args[1]), args[2], args[3]);
        }
    }
}
