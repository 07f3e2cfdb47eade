# A server on Crystal's HTTP::Server with one habit: PORT HABIT LOG.
require "http/server"
require "log"

# Head and body of a long answer are written apart, and Nagle's algorithm is on unless a socket says otherwise.
class TCPServer
  def accept? : TCPSocket?
    previous_def.try do |socket|
      socket.tcp_nodelay = true
      socket
    end
  end
end

port, habit, log = ARGV[0].to_i, ARGV[1], ARGV[2]
Log.setup(habit == "list-told" ? Log::Severity::Debug : Log::Severity::Info, Log::IOBackend.new(File.open(log, "a")))

BODY = "x" * 1024

def row(n)
  "<tr><td>valve #{n}</td><td>open and shut</td><td>#{n * 7}</td></tr>\n"
end

# ---- a table of valves ----

def table_appended
  page = "<table>\n"
  700.times { |n| page += row(n) }
  page + "</table>\n"
end

def table_built
  String.build do |page|
    page << "<table>\n"
    700.times { |n| page << row(n) }
    page << "</table>\n"
  end
end

# ---- words that are marked in a text ----

WORDS = %w(valve pump hall shelf east west north south open shut turn press flow pipe bolt seal ring gasket lever wheel)
TEXT  = (1..10).map { |n| "The valve #{n} of the hall is open and its pump is shut." }.join('\n')
KNOWN = WORDS.map { |word| Regex.new("\\b#{word}s?\\b", Regex::Options::IGNORE_CASE) }

def words_each_time
  WORDS.map { |word| TEXT.matches?(/\b#{word}s?\b/i) ? 1 : 0 }.join(' ')
end

def words_known
  KNOWN.map { |pattern| TEXT.matches?(pattern) ? 1 : 0 }.join(' ')
end

# ---- a list whose making is told to the log where its level lets it ----

def list_told
  String.build do |page|
    60.times do |n|
      Log.debug { "put valve #{n} into the list" }
      page << row(n)
    end
  end
end

page = case habit
       when "table-appended"  then ->table_appended
       when "table"           then ->table_built
       when "words-each-time" then ->words_each_time
       when "words"           then ->words_known
       when "list-told", "list" then ->list_told
       else                        ->{ BODY }
       end

server = HTTP::Server.new do |context|
  body = page.call
  context.response.content_type = "text/html"
  context.response.content_length = body.bytesize
  context.response.print body
end
server.bind_tcp "127.0.0.1", port
server.listen
