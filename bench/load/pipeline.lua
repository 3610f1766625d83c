-- Pipelines sixteen requests in one write and waits for sixteen responses.
dofile((os.getenv('BENCH_LOAD') or 'bench/load') .. '/report.lua')

local batch

function init(args)
  batch = string.rep(wrk.format(), 16)
end

function request()
  return batch
end
