-- Sends a new URL in every request, which defeats a server's cache of parsed requests.
-- The request is concatenated directly, because wrk.format costs more than some of the measured servers.
dofile((os.getenv('BENCH_LOAD') or 'bench/load') .. '/report.lua')

local number = 0
local tail

function init(args)
  tail = ' HTTP/1.1\r\nHost: ' .. wrk.host .. ':' .. wrk.port .. '\r\n\r\n'
end

function request()
  number = number + 1
  return 'GET /?n=' .. number .. tail
end
