// A server in Scala on Jetty, with one habit, given by name: Plant PORT HABIT [SERVICE_PORT].

import com.fasterxml.jackson.databind.ObjectMapper
import java.net.Socket
import java.util.concurrent.{ConcurrentLinkedQueue, Executors}
import javax.servlet.http.{HttpServletRequest, HttpServletResponse}
import org.eclipse.jetty.server.{Request, Server, ServerConnector}
import org.eclipse.jetty.server.handler.AbstractHandler
import org.eclipse.jetty.util.thread.QueuedThreadPool
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration._
import scala.util.parsing.json.JSON

/** What a meter shows, asked on connections that are kept. */
final class Meters(port: Int) {
  private val question = "GET /bytes/16 HTTP/1.1\r\nHost: meters\r\n\r\n".getBytes
  private val free = new ConcurrentLinkedQueue[Socket]

  def ask(valve: Int): Int = {
    val socket = Option(free.poll()).getOrElse(connect())
    socket.getOutputStream.write(question)
    val read = socket.getInputStream.read(new Array[Byte](4096))
    free.add(socket)
    read + valve
  }

  private def connect() = {
    val socket = new Socket("127.0.0.1", port)
    socket.setTcpNoDelay(true)
    socket
  }
}

final case class Valve(id: Int, hall: Int, bar: Double)

final class Pages(habit: String, meters: Meters) extends AbstractHandler {
  private val valves = List.tabulate(1500)(n => Valve(n, n % 12, n % 170 / 10.0))
  private val indexed = valves.toVector
  private val order = valves.take(40).map(v => s"""{"id": ${v.id}, "hall": ${v.hall}, "bar": ${v.bar}}""").mkString("[", ", ", "]")
  private val mapper = new ObjectMapper
  private lazy val own = ExecutionContext.fromExecutor(Executors.newFixedThreadPool(32))

  override def handle(target: String, base: Request, request: HttpServletRequest, response: HttpServletResponse): Unit = {
    base.setHandled(true)
    val body = page().getBytes
    response.setContentType("text/plain")
    response.setContentLength(body.length)
    response.getOutputStream.write(body)
  }

  private def page(): String = habit match {
    case "shown-by-global" => shown(ExecutionContext.global)
    case "shown-by-own" => shown(own)
    case "order-by-combinators" => s"halls ${hallsByCombinators()}"
    case "order-by-jackson" => s"halls ${hallsByJackson()}"
    case "rise-of-list" => s"risen ${risen(valves)}"
    case "rise-of-vector" => s"risen ${risen(indexed)}"
    case _ => "valve 17 is open"
  }

  /** Two meters at the same time, by threads of a pool. */
  private def shown(pool: ExecutionContext): String = {
    implicit val context: ExecutionContext = pool
    Await.result(Future.traverse(List(7, 17))(valve => Future(meters.ask(valve))), 30.seconds).mkString("shown ", ", ", "")
  }

  private def hallsByCombinators(): Int = JSON.parseFull(order) match {
    case Some(rows: List[_]) => rows.collect { case row: Map[_, _] => row.asInstanceOf[Map[String, Any]]("hall") }.distinct.size
    case _ => 0
  }

  private def hallsByJackson(): Int = {
    val rows = mapper.readTree(order)
    (0 until rows.size).map(rows.get(_).get("hall").asInt).distinct.size
  }

  /** How often a valve shows more than the one before it. */
  private def risen(all: Seq[Valve]): Int = (1 until all.size).count(n => all(n).bar > all(n - 1).bar)
}

object Plant {
  def main(args: Array[String]): Unit = {
    val server = new Server(new QueuedThreadPool(40))
    val connector = new ServerConnector(server)
    connector.setHost("127.0.0.1")
    connector.setPort(args(0).toInt)
    server.addConnector(connector)
    server.setHandler(new Pages(args(1), new Meters(args.lift(2).fold(0)(_.toInt))))
    server.start()
    server.join()
  }
}
