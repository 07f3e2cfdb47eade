# A Rack application that keeps what it knows of valves in memcached, by Dalli, with one habit, named by $HABIT;
# $MEMCACHED is where it is.
require "dalli"

HABIT = ENV.fetch("HABIT")
WHERE = ENV.fetch("MEMCACHED")
VALVES, READINGS = 2000, 1_500_000
# What is stored for longer than a summary is good, so that it can be shown while somebody makes the next one.
GOOD_FOR_S, KEPT_FOR_S = 2, 3600

ONE = Dalli::Client.new(WHERE)

# A client for each thread, with a connection of its own.
def own
  Thread.current[:dalli] ||= Dalli::Client.new(WHERE)
end

def valve(number)
  { "id" => number, "name" => "valve #{number}", "note" => "open and shut " * 4, "hall" => number % 7 }
end

def shown(cache)
  number = rand(VALVES)
  cache.fetch("valve:#{number}") { valve(number) }["note"]
end

# All valves are one entry, and one of them is shown.
def shown_of_all
  own.fetch("valves") { Array.new(VALVES) { |number| valve(number) } }[rand(VALVES)]["note"]
end

# Which readings of a day stand out: some 250 ms of work.
def summary
  readings = Array.new(READINGS) { |n| (n * 7919) % 10_007 }
  middle = readings.sort[READINGS / 2]
  "#{readings.count { |reading| reading > 2 * middle - 100 }} readings stand out"
end

# Whoever comes when it is old makes it anew.
def summary_by_all
  own.fetch("summary", GOOD_FOR_S) { summary }
end

# Who could add the entry `making` makes it anew, and the others see the old one.
def summary_by_one
  text, made_at = own.get("summary")
  if text.nil? || (Time.now.to_f - made_at > GOOD_FOR_S && own.add("making", true, 10))
    text = summary
    own.set("summary", [text, Time.now.to_f], KEPT_FOR_S)
    own.delete("making")
  end
  text
end

PAGES = {
  "valve" => -> { shown(own) },
  "valve-by-one-client" => -> { shown(ONE) },
  "valve-of-all" => -> { shown_of_all },
  "summary-by-all" => -> { summary_by_all },
  "summary-by-one" => -> { summary_by_one }
}.freeze

run(lambda do |_|
  # One string: of two Puma makes chunks, in eight writes a page.
  [200, { "Content-Type" => "text/plain" }, [PAGES.fetch(HABIT).call + "\n"]]
end)
