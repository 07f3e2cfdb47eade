// A server in Kotlin on Jetty with one habit, given by name: BoilerKt PORT HABIT [SERVICE_PORT].

import java.net.Socket
import java.util.concurrent.ConcurrentLinkedQueue
import javax.servlet.http.HttpServletRequest
import javax.servlet.http.HttpServletResponse
import org.eclipse.jetty.server.Request
import org.eclipse.jetty.server.Server
import org.eclipse.jetty.server.ServerConnector
import org.eclipse.jetty.server.handler.AbstractHandler
import org.eclipse.jetty.util.thread.QueuedThreadPool

const val TOKEN_LIVES_MS = 3_600_000

/** What a meter shows, asked on connections that are kept; a token is needed for it, which one of all fetches anew. */
class Meters(private val port: Int) {
    private val free = ConcurrentLinkedQueue<Socket>()
    private var token = ""
    private var fetched = 0L

    @Synchronized
    fun shownLocked(): Int = ask(fresh())

    fun shown(): Int = ask(fresh())

    @Synchronized
    private fun fresh(): String {
        val now = System.currentTimeMillis()
        if (now - fetched > TOKEN_LIVES_MS) {
            token = "boiler-$now"
            fetched = now
        }
        return token
    }

    private fun ask(token: String): Int {
        val socket = free.poll() ?: Socket("127.0.0.1", port).apply { tcpNoDelay = true }
        val head = "GET /bytes/16 HTTP/1.1\r\nHost: meters\r\nAuthorization: Bearer $token\r\n\r\n"
        socket.getOutputStream().write(head.toByteArray())
        val read = socket.getInputStream().read(ByteArray(4096))
        free.add(socket)
        return read
    }
}

data class Reading(val boiler: Int, val degrees: Double, val state: String)

val readings = List(3000) { n -> Reading(n % 40, n % 170 / 2.0, if (n % 3 > 0) "burning" else "off") }

const val TROUBLE = "^(fault|leak(s|ing|age)?|overheat(s|ed|ing)?|flame ?out|no (gas|water|air))$"
val TROUBLED = Regex(TROUBLE)

fun troubledByNewExpressions() = readings.count { it.state.matches(TROUBLE.toRegex()) }

fun troubledByOneExpression() = readings.count { it.state.matches(TROUBLED) }

/** Those that burn, in a list that is made anew with each of them. */
fun burningByPlus(): List<Reading> {
    var burning = listOf<Reading>()
    for (reading in readings) {
        if (reading.state == "burning") burning += reading
    }
    return burning
}

fun burningByFilter() = readings.filter { it.state == "burning" }

class Pages(private val habit: String, private val meters: Meters) : AbstractHandler() {
    override fun handle(target: String, base: Request, request: HttpServletRequest, response: HttpServletResponse) {
        base.isHandled = true
        val body = page().toByteArray()
        response.contentType = "text/plain"
        response.setContentLength(body.size)
        response.outputStream.write(body)
    }

    private fun page() = when (habit) {
        "shown-locked" -> "shown ${meters.shownLocked()}"
        "shown" -> "shown ${meters.shown()}"
        "troubled-by-new-expressions" -> "troubled ${troubledByNewExpressions()}"
        "troubled-by-one-expression" -> "troubled ${troubledByOneExpression()}"
        "burning-by-plus" -> "burning ${burningByPlus().size}"
        "burning-by-filter" -> "burning ${burningByFilter().size}"
        else -> "boiler 7 is off"
    }
}

fun main(args: Array<String>) {
    val server = Server(QueuedThreadPool(40))
    val connector = ServerConnector(server)
    connector.host = "127.0.0.1"
    connector.port = args[0].toInt()
    server.addConnector(connector)
    server.handler = Pages(args[1], Meters(args.getOrElse(2) { "0" }.toInt()))
    server.start()
    server.join()
}
