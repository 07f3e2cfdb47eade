# A Sinatra application on WEBrick with one habit: sinatra_app.rb PORT HABIT [STORE_PORT].
#
# WEBrick writes head and body apart and leaves Nagle's algorithm on, so that a kept connection waits for the client's
# delayed acknowledgement; but for the habit `as-shipped` it is told not to.

require "redis"
require "sinatra/base"
require "webrick"

BODY = "x" * 1024
PORT, HABIT, STORE = ARGV
VALVES, OTHERS = 1000, 24_000
FILL = "for n = 1, tonumber(ARGV[1]) do redis.call('set', 'other:' .. n, 'shut') end"

def store
  Thread.current[:store] ||= Redis.new(host: "127.0.0.1", port: Integer(STORE))
end

# A list that stays empty: the store says so after 4 ms.
def waited
  store.call("blpop", "nothing", "0.004")
  BODY
end

WORK = {
  "plain" => -> { BODY },
  "as-shipped" => -> { BODY },
  "waited" => -> { waited },
  "locked" => -> { waited },
  "keys" => -> { store.keys("valve:*77"); BODY },
  "members" => -> { store.smembers("seventy-sevens"); BODY },
}.fetch(HABIT)

if STORE
  store.eval(FILL, argv: [OTHERS])
  store.pipelined do |all|
    VALVES.times do |n|
      all.set("valve:#{n}", "open")
      all.sadd("seventy-sevens", n) if n % 100 == 77
    end
  end
end

class Page < Sinatra::Base
  set :environment, :production
  set :logging, false
  # One request at a time, for applications that are not safe with threads.
  set :lock, HABIT == "locked"
  disable :protection

  get "/" do
    content_type "text/plain"
    WORK.call
  end
end

at_once = ->(socket) { socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1) }
Rack::Handler::WEBrick.run(Page, Host: "127.0.0.1", Port: Integer(PORT), AccessLog: [],
                           Logger: WEBrick::Log.new(File::NULL), MaxClients: 100,
                           AcceptCallback: HABIT == "as-shipped" ? nil : at_once)
