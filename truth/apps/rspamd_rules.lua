-- Rules of the house for rspamd, loaded after its own; which one, HABIT says.
local rspamd_http = require "rspamd_http"
local rspamd_regexp = require "rspamd_regexp"
local rspamd_trie = require "rspamd_trie"

local LISTED, HIT, MISSED = 1500, 'HOUSE_LISTED', 'HOUSE_QUIET'
local habit, service = os.getenv('HABIT'), os.getenv('SERVICE')

-- Phrases that swindlers wrote to fitters before.
local phrases = {}
for n = 1, LISTED do
  phrases[n] = string.format('valve %d at half its price', n * 13)
end

local function said(task, found)
  task:insert_result(found and HIT or MISSED, 1.0)
end

-- An expression for each phrase, one after the other.
local function by_expressions()
  local expressions = {}
  for n, phrase in ipairs(phrases) do
    expressions[n] = rspamd_regexp.create_cached('/' .. phrase:gsub(' ', '\\s+') .. '/i')
  end
  return function(task)
    local content = task:get_content()
    for _, expression in ipairs(expressions) do
      if expression:match(content) then
        return said(task, true)
      end
    end
    said(task, false)
  end
end

-- All phrases in one pass.
local function by_trie()
  local trie = rspamd_trie.create(phrases, {rspamd_trie.flags.icase})
  return function(task)
    said(task, trie:match(task:get_content(), function() return true end))
  end
end

-- What a service in the house thinks of the sender; over a connection that is kept where so asked.
local function by_service(kept)
  return function(task)
    rspamd_http.request({
      task = task, url = service, no_ssl_verify = true, keepalive = kept, timeout = 2.0,
      callback = function(_, code) said(task, code == 200) end,
    })
  end
end

local check = ({
  ['phrases-by-expressions'] = by_expressions, ['phrases-by-trie'] = by_trie,
  ['sender-asked-anew'] = function() return by_service(false) end,
  ['sender-asked'] = function() return by_service(true) end,
})[habit]
if check then
  local id = rspamd_config:register_symbol({name = 'HOUSE_CHECK', type = 'callback', callback = check()})
  for _, name in ipairs({HIT, MISSED}) do
    rspamd_config:register_symbol({name = name, type = 'virtual', parent = id, score = 0.1, group = 'house'})
  end
end
