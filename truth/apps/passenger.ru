# An API of Grape with one habit, named by $HABIT; $DATABASE is the port of PostgreSQL, $SERVICE that of an HTTP service.
require "grape"
require "net/http"
require "sequel"

HABIT = ENV.fetch("HABIT")
BODY = "x" * 1024

if ENV["DATABASE"] != ""
  Sequel.connect("postgres://truth@127.0.0.1:#{ENV["DATABASE"]}/postgres")

  class Valve < Sequel::Model(:valves)
  end
  # A worker that is forked from this process needs connections of its own.
  Sequel::Model.db.disconnect
end

class Shop < Grape::API
  format :txt

  helpers do
    # A connection for each process, which serves one request at a time.
    def service
      $service ||= Net::HTTP.start("127.0.0.1", ENV.fetch("SERVICE").to_i)
    end
  end

  get("/") do
    case HABIT
    when "price" then service.get("/").body
    when "counted-in-ruby" then Valve.where { id < 2000 }.all.size.to_s
    when "counted-in-database" then Valve.where { id < 2000 }.count.to_s
    else BODY
    end
  end
end

run Shop
