# A Rails application with one habit, named by $HABIT; $DATABASE_URL is MariaDB's, $SERVICE the port of an HTTP service.
require "rails"
require "action_controller/railtie"
require "net/http"

HABIT = ENV.fetch("HABIT")
BODY = "x" * 1024
FRAGMENTS = 30

# What the application has become over the years.
FileUtils.mkdir_p("app/models")
400.times { |n| File.write("app/models/part_#{n}.rb", "class Part#{n}\nend\n") }

if ENV["DATABASE_URL"]
  require "active_record/railtie"

  class Valve < ActiveRecord::Base
  end
end

class Shop < Rails::Application
  config.root = Dir.pwd
  config.load_defaults 6.1
  config.eager_load = false
  config.secret_key_base = "x" * 64
  config.logger = ActiveSupport::Logger.new($stdout)
  config.log_level = :warn
  config.cache_classes = HABIT != "reloading"
  # In files below tmp/cache unless somebody says otherwise.
  config.cache_store = :memory_store unless HABIT == "fragments-in-files"
  routes.append { root to: "pages#show" }
end

class PagesController < ActionController::Base
  def show
    render plain: page
  end

  private

  def page
    case HABIT
    when "offer" then offer
    when "fragments", "fragments-in-files" then fragments
    else BODY
    end
  end

  # The connection to the database is this request's until its end.
  def offer
    valve = Valve.find(7)
    "#{valve.name} costs #{service.get("/").body}"
  end

  def service
    Thread.current[:service] ||= Net::HTTP.new("127.0.0.1", ENV.fetch("SERVICE").to_i).tap do |http|
      http.keep_alive_timeout = 60
      http.start
    end
  end

  def fragments
    (1..FRAGMENTS).map { |n| Rails.cache.fetch("valves/#{n}/card") { "<li>valve #{n}, open and shut</li>" } }.join("\n")
  end
end

Shop.initialize!
run Shop
