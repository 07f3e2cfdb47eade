-- A server of lua-http with one habit, given by name: luahttp_app.lua PORT HABIT [SERVICE_PORT].
local cqueues = require "cqueues"
local socket = require "cqueues.socket"
local http_headers = require "http.headers"
local http_server = require "http.server"
local luasocket = require "socket"

local port, habit, service = tonumber(arg[1]), arg[2], tonumber(arg[3])
local body = string.rep("x", 1024)
local ask = "GET /bytes/16 HTTP/1.1\r\nHost: service\r\n\r\n"
local count, slice, pause = 160000, 300, 1
local readings, sums = {}, {}
local blocking
local free = {}

local function start(stream, length)
    local head = http_headers.new()
    head:append(":status", "200")
    head:append("content-type", "text/plain")
    if length then
        head:append("content-length", tostring(length))
    end
    assert(stream:write_headers(head, false))
end

local function send(stream, what)
    start(stream, #what)
    assert(stream:write_chunk(what, true))
end

local function plain(stream)
    send(stream, body)
end

-- What is in stock is known to a service, asked by the driver that the shop's other programs use.
local function stock_by_driver(stream)
    if not blocking then
        blocking = assert(luasocket.connect("127.0.0.1", service))
        blocking:setoption("tcp-nodelay", true)
    end
    assert(blocking:send(ask))
    repeat
        local line = assert(blocking:receive("*l"))
    until line == ""
    assert(blocking:receive(16))
    send(stream, body)
end

-- The same over sockets that the loop knows, each kept for the next who asks.
local function stock(stream)
    local connection = table.remove(free)
        or assert(socket.connect({host = "127.0.0.1", port = service, nodelay = true}))
    connection:setmode("b", "bn")
    assert(connection:write(ask))
    repeat
        local line = assert(connection:read("*L"))
    until line == "\r\n"
    assert(connection:read(16))
    free[#free + 1] = connection
    send(stream, body)
end

-- A list of 150 valves, each written when it is known.
local function listed_one_by_one(stream)
    start(stream)
    for n = 1, 150 do
        assert(stream:write_chunk("valve " .. n .. " open and shut\n", n == 150))
    end
end

local function listed(stream)
    local rows = {}
    for n = 1, 150 do
        rows[n] = "valve " .. n .. " open and shut\n"
    end
    start(stream)
    assert(stream:write_chunk(table.concat(rows), true))
end

local function add(n)
    local hall = "hall " .. n % 90
    sums[hall] = (sums[hall] or 0) + #string.format("%08.3f %s", readings[n], hall)
end

-- Each second the readings are summed up for the screens in the halls.
local function sum_up()
    while true do
        cqueues.sleep(pause)
        for n = 1, count do
            add(n)
        end
    end
end

-- The same, with requests served in between.
local function sum_up_in_slices()
    while true do
        cqueues.sleep(pause)
        for n = 1, count do
            add(n)
            if n % slice == 0 then
                cqueues.sleep(0)
            end
        end
    end
end

local pages = {
    ["stock-by-driver"] = stock_by_driver, stock = stock, listed = listed, ["listed-one-by-one"] = listed_one_by_one,
}
local page = pages[habit] or plain

local server = assert(http_server.listen {
    host = "127.0.0.1", port = port,
    onstream = function(_, stream)
        if stream:get_headers() then
            page(stream)
        end
    end,
    onerror = function() end,
})
assert(server:listen())
for n = 1, count do
    readings[n] = n * 7 % 1000 / 7
end
if habit == "summed-up" then
    server.cq:wrap(sum_up)
elseif habit == "summed-up-in-slices" then
    server.cq:wrap(sum_up_in_slices)
end
assert(server:loop())
