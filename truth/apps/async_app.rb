# frozen_string_literal: true

# A server of async-http, one loop of fibers, with one habit, given by name: async_app.rb PORT HABIT [SERVICE_PORT | FILE].

require "async"
require "async/http/client"
require "async/http/endpoint"
require "async/http/internet"
require "async/http/server"
require "protocol/http/response"

PORT, HABIT, WHAT = ARGV
HEADERS = [["content-type", "text/plain"]].freeze
VISITORS = 60_000
SAVED_EACH_S = 1

def answered(body)
  Protocol::HTTP::Response[200, HEADERS, [body]]
end

# The stock is another system's.
def service
  "http://127.0.0.1:#{WHAT}"
end

def stock(limit)
  client = Async::HTTP::Client.new(Async::HTTP::Endpoint.parse(service), connection_limit: limit)
  proc { |_request| answered(client.get("/bytes/16").read) }
end

# As above, by what the manual shows for a script that asks once.
def stock_dialled
  proc do |_request|
    internet = Async::HTTP::Internet.new
    begin
      answered(internet.get("#{service}/bytes/16").read)
    ensure
      internet.close
    end
  end
end

# Who was here is kept, and written to a file so that a restart forgets nothing.
def visits(task, whole)
  seen = Array.new(VISITORS) { |n| [n, { "page" => "/valves/#{n}", "at" => n * 7, "from" => "hall #{n % 12}" }] }.to_h
  task.async do |saving|
    loop do
      saving.sleep(SAVED_EACH_S)
      File.binwrite(WHAT, Marshal.dump(whole ? seen : seen.slice(7)))
    end
  end
  proc do |_request|
    seen[7]["at"] += 1
    answered("x" * 1024)
  end
end

def page(task)
  case HABIT
  when "stock-one-connection" then stock(1)
  when "stock" then stock(nil)
  when "stock-dialled" then stock_dialled
  when "visits-saved-whole" then visits(task, true)
  when "visits-saved" then visits(task, false)
  else proc { |_request| answered("x" * 1024) }
  end
end

Async do |task|
  endpoint = Async::HTTP::Endpoint.parse("http://127.0.0.1:#{PORT}")
  Async::HTTP::Server.for(endpoint, &page(task)).run
end
