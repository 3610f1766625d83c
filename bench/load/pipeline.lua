-- Sixteen requests in one write, sixteen answers awaited.
dofile((os.getenv('BENCH_LOAD') or 'bench/load') .. '/report.lua')

local batch

function init(args)
  batch = string.rep(wrk.format(), 16)
end

function request()
  return batch
end
