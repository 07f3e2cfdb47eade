-- Pages of mod_lua; a case maps one of the functions to the root.
local body = string.rep("x", 1024)
local machine, kept

local function send(r, what)
    r.content_type = "text/plain"
    r:write(what)
    return apache2.OK
end

function plain(r)
    return send(r, body)
end

-- A page with a title in the visitor's language.
function titled(r)
    local texts = require "texts"
    return send(r, texts.en["hall.7.title"] .. "\n" .. body)
end

-- This interpreter's connection to Redis, kept.
local function store(r)
    if not kept then
        kept = require("socket").connect("127.0.0.1", tonumber(r.subprocess_env["STORE"]))
        kept:setoption("tcp-nodelay", true)
    end
    return kept
end

local function value(connection)
    local size = tonumber(connection:receive("*l"):sub(2))
    return size >= 0 and connection:receive(size + 2):sub(1, -3) or "open and shut"
end

-- The notes of a hall's thirty valves, each asked for by itself.
function notes_one_by_one(r)
    local connection, page = store(r), {}
    for valve = 300, 329 do
        connection:send("GET note:" .. valve .. "\r\n")
        page[#page + 1] = value(connection)
    end
    return send(r, table.concat(page, "\n"))
end

-- The same with one question.
function notes(r)
    local connection, keys, page = store(r), {}, {}
    for valve = 300, 329 do
        keys[#keys + 1] = "note:" .. valve
    end
    connection:send("MGET " .. table.concat(keys, " ") .. "\r\n")
    connection:receive("*l")
    for n = 1, #keys do
        page[n] = value(connection)
    end
    return send(r, table.concat(page, "\n"))
end

local function asked_machine()
    local command = io.popen("uname -n")
    local name = command:read("l")
    command:close()
    return name
end

-- The foot of the page tells which machine has answered.
function signed_by_command(r)
    return send(r, body .. "\n" .. asked_machine())
end

-- The same, with the name kept.
function signed(r)
    machine = machine or asked_machine()
    return send(r, body .. "\n" .. machine)
end
