-- Whether Orthanc answers a request at all: a gate at $GATE is asked, whose word is kept for $KEPT_S seconds.
local gate = 'http://127.0.0.1:' .. os.getenv('GATE') .. '/vhost'
local kept = tonumber(os.getenv('KEPT_S'))
local asked, said = -kept, nil

function IncomingHttpRequestFilter(method, uri, ip, username, headers)
   local now = os.time()
   if now - asked >= kept then
      asked, said = now, HttpGet(gate)
   end
   return said == 'allow'
end
