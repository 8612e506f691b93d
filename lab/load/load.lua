-- Makes the requests of calls.go for wrk: the n-th asks about the same object, at the same epsilon, under the same key.
-- Arguments: what is called, the number of the first call, how many objects there are, a file with a token on each line.

local running -- the thread of wrk that runs; there is one

function setup(thread) running = thread end

function init(args)
  what, first, objects = args[1], tonumber(args[2]), tonumber(args[3])
  tokens = {}
  for line in io.lines(args[4]) do tokens[#tokens + 1] = line end
  sent = -1 -- wrk asks once before it begins, to see what comes
  heads = {}
  for i, token in ipairs(tokens) do
    local shared = " HTTP/1.1\r\nHost: " .. wrk.headers["Host"] .. "\r\nAuthorization: Bearer " .. token .. "\r\n"
    heads[i] = shared .. "Content-Type: application/json\r\nIdempotency-Key: \"order-"
    tokens[i] = shared .. "\r\n"
  end
end

function request()
  local n = first + math.max(sent, 0)
  local object = (n % objects) * 40503007 % objects
  local at = n % #tokens + 1
  sent = sent + 1
  if what == "read" then
    return string.format("GET /v1/object?object=person-%08d", object) .. tokens[at]
  end
  local name = string.format("person-%08d", object)
  local thousandths = math.floor(n / objects) + 1
  local body = string.format('{"question":"vote","object":"%s","epsilon":"%d.%03d","truths":{"%s":"value %d"}}',
    name, math.floor(thousandths / 1000), thousandths % 1000, name, object % 4)
  return "POST /v1/releases" .. heads[at] .. string.format('%d"\r\nContent-Length: %d\r\n\r\n', n, #body) .. body
end

function done(summary, latency, requests)
  local e = summary.errors
  io.stderr:write(string.format(
    '{"answered":%d,"sent":%d,"micros":%d,"p50":%d,"p99":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
    summary.requests, running:get("sent"), summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.status, e.timeout))
end
