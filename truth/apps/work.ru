# A Rack application with one habit, named by $HABIT; $BACKEND is the port of the service that it asks.

require "erb"
require "socket"

BODY = "x" * 1024
ASK = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n"
ROWS = Array.new(100) { |n| { id: n, name: "valve #{n}", note: "<open & shut>" } }
TABLE = <<~HTML
  <table>
  <% rows.each do |row| %>
    <tr><td><%= row[:id] %></td><td><%= ERB::Util.html_escape(row[:name]) %></td>
    <td><%= ERB::Util.html_escape(row[:note]) %></td></tr>
  <% end %>
  </table>
HTML
# Every way to divide the name into groups is tried before the domain is found to be another.
LOOSE = /\A([a-z0-9]+\.?)+@[a-z]+\.com\z/
STRICT = /\A[a-z0-9]+(\.[a-z0-9]+)*@[a-z]+\.com\z/
ADDRESS = "#{"valve" * 3}@example.org"

def table
  rows = ROWS
  ERB.new(TABLE).result(binding)
end

PAGE = table

def ask(times)
  connection = (Thread.current[:connection] ||= TCPSocket.new("127.0.0.1", Integer(ENV["BACKEND"])))
  times.times do
    connection.write(ASK)
    connection.readpartial(4096)
  end
  BODY
end

WORK = {
  "plain" => -> { BODY },
  "sleep" => -> { sleep(0.01); BODY },
  "template" => -> { table },
  "page-made-once" => -> { PAGE },
  "loose-pattern" => -> { LOOSE.match?(ADDRESS); BODY },
  "strict-pattern" => -> { STRICT.match?(ADDRESS); BODY },
  "row-by-row" => -> { ask(20) },
  "all-rows" => -> { ask(1) },
}.fetch(ENV.fetch("HABIT"))

run lambda { |_|
  body = WORK.call
  [200, { "Content-Type" => "text/plain", "Content-Length" => body.bytesize.to_s }, [body]]
}
