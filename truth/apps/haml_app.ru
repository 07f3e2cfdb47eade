# A Rack application with one habit, named by $HABIT; its pages are of Haml, its rows in SQLite by Sequel.
require "haml"
require "rack"
require "sequel"
require "tilt"
require "zlib"

HABIT = ENV.fetch("HABIT")
CUSTOMERS = 500

# ---- orders of a customer ----

DB = Sequel.sqlite(File.join(Dir.pwd, "orders.db"), max_connections: 16)
DB.create_table?(:orders) do
  primary_key :id
  Integer :customer
  String :what
end
if DB[:orders].empty?
  DB[:orders].import(%i[customer what], (0...20_000).map { |n| [n % CUSTOMERS, "valve #{n}"] })
  DB.add_index(:orders, :customer) if HABIT != "orders-without-index"
end

PAGE = Tilt::HamlTemplate.new { <<~PAGE }
  %h1 Orders
  %table
    - orders.each do |order|
      %tr
        %td= order[:id]
        %td= order[:what]
PAGE

def orders
  PAGE.render(nil, orders: DB[:orders].where(customer: rand(CUSTOMERS)).all)
end

# ---- what the application keeps in memory ----

Part = Struct.new(:number, :name)
PARTS = HABIT.start_with?("parts") ? (0...20_000).to_h { |n| [n, Part.new(n, "part #{n}")] } : {}

def parts
  PAGE.render(nil, orders: Array.new(20) { (part = PARTS[rand(PARTS.size)]) && { id: part.number, what: part.name } })
end

EACH = 5
COUNT = Mutex.new
$served = 0

# What is advised for servers that grow, with the number of requests that Unicorn::OobGC has.
def parts_collected
  page = parts
  nth = COUNT.synchronize { $served += 1 }
  GC.start if (nth % EACH).zero?
  page
end

# ---- a program for the browser, which lies below public/ as it is and compressed ----

Dir.mkdir("public") unless Dir.exist?("public")
script = (0...9000).map { |n| "function turn#{n}(valve) { return valve.angle + #{n * 7919 % 1013}; }\n" }.join
File.write("public/app.js", script)
Zlib::GzipWriter.open("public/app.js.gz") { |file| file.write(script) }

case HABIT
when "script-compressed-each-time"
  use Rack::Deflater
  use Rack::Static, urls: ["/app.js"], root: "public"
when "script"
  use Rack::Static, urls: ["/app.js"], root: "public", gzip: true
end

WORK = {
  "orders-without-index" => :orders, "orders" => :orders, "parts-collected" => :parts_collected, "parts" => :parts,
}

run lambda { |_|
  body = send(WORK.fetch(HABIT))
  [200, { "Content-Type" => "text/html", "Content-Length" => body.bytesize.to_s }, [body]]
}
