// A server in Groovy on Jetty, with one habit, given by name: Groovy PORT HABIT [SERVICE_PORT].

import groovy.transform.Synchronized
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.LinkedBlockingQueue
import javax.servlet.http.HttpServletRequest
import javax.servlet.http.HttpServletResponse
import org.eclipse.jetty.server.HttpConnectionFactory
import org.eclipse.jetty.server.Request
import org.eclipse.jetty.server.Server
import org.eclipse.jetty.server.ServerConnector
import org.eclipse.jetty.server.handler.AbstractHandler
import org.eclipse.jetty.util.thread.QueuedThreadPool

/** What the service says, asked on connections that are kept. */
class Service {
    final int port
    final free = new LinkedBlockingQueue<Socket>()
    final known = new ConcurrentHashMap<String, String>()

    Service(int port) { this.port = port }

    String ask(String what) {
        def socket = free.poll() ?: new Socket('127.0.0.1', port)
        socket.outputStream.write("GET /bytes/64 HTTP/1.1\r\nHost: service\r\n\r\n".bytes)
        def answer = new byte[4096]
        socket.inputStream.read(answer)
        free.add(socket)
        "$what ${answer.length}"
    }

    /** The price of the day; one at a time, since somebody once saw a price asked twice. */
    @Synchronized
    String priceInTurn(String what) { ask(what) }

    String price(String what) { ask(what) }
}

/** What a report can be drawn as; what it cannot is drawn as text. */
class Report {
    String name = 'valves'

    def drawAsText(row) { "$row.name: $row.bar\n" }

    def drawAsTotal(row) { "total: $row.bar\n" }

    def drawAsHeading(row) { "* $row.name\n" }
}

class Pages extends AbstractHandler {
    static final RULE = '''
        def share = bar > 7 ? 0.2 : 0.1
        def months = [4, 5, 6].contains(month) ? 3 : 1
        (bar * share * months).setScale(2, BigDecimal.ROUND_HALF_UP)
    '''
    static final KINDS = ['text', 'chart', 'total', 'gauge', 'heading', 'plan']
    static final ROWS = (1..60).collect { [name: "valve $it", bar: it * 10, kind: KINDS[it % KINDS.size()]] }
    final Closure page
    final Service service
    final report = new Report()
    final rules = new ThreadLocal<Script>() {
        protected Script initialValue() { new GroovyShell().parse(RULE) }
    }

    Pages(String habit, int port) {
        service = new Service(port)
        page = this.&"$habit"
    }

    /** The rule of prices is a text that keepers change; it is evaluated as it is. */
    def ruleEvaluated() { new GroovyShell(new Binding([bar: 7.5, month: 5])).evaluate(RULE).toString() }

    /** It is parsed once by each thread. */
    def rule() {
        def script = rules.get()
        script.binding = new Binding([bar: 7.5, month: 5])
        script.run().toString()
    }

    def priceInTurn() { service.priceInTurn('valve') }

    def price() { service.price('valve') }

    /** A row is drawn as what it is, or as text where the report has no such method. */
    def rowsTried() {
        def text = new StringBuilder()
        for (row in ROWS) {
            try {
                text << report."drawAs${row.kind.capitalize()}"(row)
            } catch (MissingMethodException ignored) {
                text << report.drawAsText(row)
            }
        }
        text.toString()
    }

    /** As above, by what the report is known to have. */
    def rows() {
        def text = new StringBuilder()
        for (row in ROWS) {
            switch (row.kind) {
                case 'total': text << report.drawAsTotal(row); break
                case 'heading': text << report.drawAsHeading(row); break
                default: text << report.drawAsText(row)
            }
        }
        text.toString()
    }

    void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response) {
        def body = page().getBytes('UTF-8')
        response.contentType = 'text/plain'
        response.contentLength = body.length
        response.outputStream.write(body)
        base.handled = true
    }
}

def server = new Server(new QueuedThreadPool(32))
def connector = new ServerConnector(server, 1, 1, new HttpConnectionFactory())
connector.host = '127.0.0.1'
connector.port = args[0] as int
connector.idleTimeout = 60_000
server.addConnector(connector)
server.handler = new Pages(args[1], args.length > 2 ? args[2] as int : 0)
server.start()
server.join()
