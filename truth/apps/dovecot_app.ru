# A Rack application before a mailbox of Dovecot, by IMAP, with one habit, named by $HABIT; $DOVECOT is its port.
require "net/imap"

HABIT = ENV.fetch("HABIT")
ORDERS = 200

def mailbox
  imap = Net::IMAP.new("127.0.0.1", port: Integer(ENV.fetch("DOVECOT")))
  imap.login("fitter", "open")
  imap
end

# A thread's own connection, which stays.
def kept
  Thread.current[:imap] ||= mailbox.tap { |imap| imap.examine("INBOX") if HABIT.start_with?("found") }
end

def unread(imap)
  "#{imap.status("INBOX", ["UNSEEN"])["UNSEEN"]} letters are unread"
end

# A connection for each page, as PHP's programs for mail have it.
def logged_in
  imap = mailbox
  text = unread(imap)
  imap.logout
  text
ensure
  imap&.disconnect
end

# How many letters are about an order; its number is in the subject, and the whole letter speaks of it too.
def found(where)
  "#{kept.search([where, "order #{1000 + rand(ORDERS)}"]).size} letters"
end

PAGES = {
  "unread" => -> { unread(kept) },
  "logs-in" => -> { logged_in },
  "found-in-text" => -> { found("TEXT") },
  "found-in-subject" => -> { found("SUBJECT") }
}.freeze

run(lambda do |_|
  [200, { "Content-Type" => "text/plain" }, [PAGES.fetch(HABIT).call, "\n"]]
end)
