# A stock of valves in PostgreSQL by Sequel, behind an API of Grape. $POOL connections; $EXTENSIONS are Sequel's.
require "grape"
require "logger"
require "net/http"
require "sequel"

DB = Sequel.connect("postgres://truth@127.0.0.1:#{ENV.fetch("DATABASE")}/postgres",
                    max_connections: Integer(ENV.fetch("POOL", 16)))
unless ENV.fetch("EXTENSIONS", "").empty?
  DB.extension(*ENV["EXTENSIONS"].split.map(&:to_sym))
  DB.loggers << Logger.new(File.join(Dir.pwd, "statements.log"))
end
SUPPLIER = Integer(ENV.fetch("SUPPLIER", 0))
STOCKED = 2000

class Valve < Sequel::Model(:valves)
  def self.stocked = where { id <= STOCKED }
end

class Counter < Sequel::Model(:counters)
end

class Depot < Grape::API
  format :json

  helpers do
    def shown(valve) = { id: valve.id, name: valve.name, note: valve.note }

    # On a connection of the thread's own.
    def ask_supplier(id)
      connection = Thread.current[:supplier] ||= Net::HTTP.start("127.0.0.1", SUPPLIER).tap { |one| one.keep_alive_timeout = 60 }
      connection.get("/valves/#{id}").body
    end
  end

  # The names that a parameter may have, read for each request.
  params { requires :name, type: String, values: -> { Valve.stocked.select_map(:name) } }
  get "named-from-all" do
    shown(Valve[11])
  end

  # The same rule asked by its key: is there a valve of that name and number?
  params { requires :name, type: String, values: ->(name) { !Valve.stocked.where(id: name[/\d+\z/].to_i, name: name).empty? } }
  get "named-by-one" do
    shown(Valve[11])
  end

  # An order is counted, and the supplier asked within its transaction.
  get "ordered" do
    DB.transaction do
      counter = Counter[rand(1..64)]
      { ordered: counter.id, answer: ask_supplier(counter.id) }
    end
  end

  # A shelf of ten valves, one after the other.
  get "shelf" do
    first = rand(1..STOCKED)
    Array.new(10) { |n| shown(Valve[first + n]) }
  end
end

run Depot
