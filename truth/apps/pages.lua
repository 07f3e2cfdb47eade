-- Pages of an nginx with Lua; each is a habit of its own. The store is Redis.
local pages = {}
local body = string.rep("x", 1024)
local kept

local function question(socket, text)
    assert(socket:send(text .. "\r\n"))
    return assert(socket:receive("*l"))
end

-- Over a connection that nginx keeps for the worker.
local function ask(text)
    local socket = ngx.socket.tcp()
    assert(socket:connect("127.0.0.1", tonumber(ngx.var.store)))
    local said = question(socket, text)
    socket:setkeepalive(60000, 64)
    return said
end

function pages.counted()
    ngx.say(string.format('{"visits":%s}', ask("INCR visits"):sub(2)))
end

-- The list stays empty: the store says so after 4 ms.
function pages.waited()
    ask("BLPOP nothing 0.004")
    ngx.say(body)
end

-- By Lua's common library for sockets, which knows nothing of nginx.
function pages.waited_in_the_worker()
    if not kept then
        kept = require("socket").tcp()
        assert(kept:connect("127.0.0.1", tonumber(ngx.var.store)))
    end
    question(kept, "BLPOP nothing 0.004")
    ngx.say(body)
end

return pages
