-- What an app asks Prosody for by HTTP: the last messages to the keeper, out of the archive, and a line of the plant.
local cache = require "util.cache";
local st = require "util.stanza";
local usermanager = require "core.usermanager";
local t_concat = table.concat;

local keeper, with, shown = "keeper", "fitter7@localhost", 20;
local messages = module:open_store("messages", "archive");
-- How many messages are put into an archive that has none yet.
local to_write = module:get_option_number("valves_written", 0);
-- Since when messages are looked for, where somebody wants a bound.
local since = module:get_option_number("valves_since");
-- Whether keys that were found right are known again for a while.
local keys_kept = module:get_option_boolean("valves_keys_kept", true);
local kept, kept_for = cache.new(1000), 60;

local function text_of(n)
	return ("valve %d is open, and is to be shut by the evening; tell hall %d"):format(n, n % 90);
end

for n = 1, to_write do
	local message = st.message({ from = with, to = "keeper@localhost", type = "chat" }):text_tag("body", text_of(n));
	assert(messages:append(keeper, nil, message, 1700000000 + n * 60, with));
end

local function last(event)
	local found = messages:find(keeper, { start = since, limit = shown, reverse = true });
	if not found then
		return 500;
	end
	local lines = {};
	for _, message in found do
		lines[#lines + 1] = message:get_child_text("body");
	end
	event.response.headers.content_type = "text/plain";
	return t_concat(lines, "\n");
end

-- The app's key is the password of a user of its own.
local function is_right(key)
	local until_when = keys_kept and kept:get(key);
	if until_when and until_when > os.time() then
		return true;
	end
	local right = usermanager.test_password("app", module.host, key);
	if right then
		kept:set(key, os.time() + kept_for);
	end
	return right;
end

local function line(event)
	local key = event.request.url.query;
	if not key or not is_right(key) then
		return 403;
	end
	event.response.headers.content_type = "text/plain";
	return text_of(7);
end

if not usermanager.user_exists("app", module.host) then
	assert(usermanager.create_user("app", "open-and-shut", module.host));
end

module:depends("http");
module:provides("http", {
	default_path = "/valves";
	route = { ["GET /last"] = last, ["GET /line"] = line };
});
