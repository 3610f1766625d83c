//! What Redis runs, so that each step is whole: opening the log, appending, reading, and looking for older messages.

/// Most records that one script appends.
pub(super) const APPEND_MAX: usize = 64;
/// Most events that one script gives, and after how many bytes of data it gives no more: Redis closes a connection that has
/// subscribed when too much waits for it (`client-output-buffer-limit`).
pub(super) const READ_MAX: &[u8] = b"512";
pub(super) const READ_BYTES_MAX: &[u8] = b"2097152";
/// How many records of an outbox the log knows that it has, all that may be sent again among them ([`IN_FLIGHT_MAX`]), and how
/// long.
pub(super) const SENT_RANK: &[u8] = b"-4097";
pub(super) const SENT_SECONDS: &[u8] = b"600";
/// Arguments per appended record.
pub(super) const RECORD_ARGUMENTS: usize = 5;

/// Says where the log stands, and gives it an epoch when it has none, or has lost what a node knows that it had. Keys: meta, log.
/// Arguments: an epoch that nobody has, the node's epoch, the last place that it knows of, when the message there was stored.
const OPEN: &[u8] = br"
local epoch = redis.call('HGET', KEYS[1], 'epoch')
local last = redis.call('HGET', KEYS[1], 'last') or '0'
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if newest then
  local id = string.match(newest[1], '^%d+')
  if tonumber(id) > tonumber(last) then
    last = id
    redis.call('HSET', KEYS[1], 'last', id)
  end
end
local lost = 0
if epoch and epoch == ARGV[2] then
  if tonumber(ARGV[3]) > tonumber(last) then
    lost = 1
  elseif ARGV[4] ~= '' then
    local entry = redis.call('XRANGE', KEYS[2], ARGV[3] .. '-0', ARGV[3] .. '-0')[1]
    for i = 1, entry and #entry[2] or 0, 2 do
      if entry[2][i] == 't' and entry[2][i + 1] ~= ARGV[4] then lost = 1 end
    end
  end
end
if not epoch or lost == 1 then
  epoch = ARGV[1]
  redis.call('HSET', KEYS[1], 'epoch', epoch)
end
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
return {epoch, last, oldest and string.match(oldest[1], '^%d+') or '0', lost}
";

/// Appends records, each once; none to see whether it would. Keys: meta, log, sent. Arguments: epoch, most events of the log,
/// channel for news, rank of the newest record to forget, seconds to remember the others, the record that the log must have
/// because it was sent just before (none of it when that one was refused); per record its
/// number, channel, '+' and its name or '-' or '=' and what it is instead of an event, data, who does not get it. Gives when the
/// last one was stored, empty where it was there before (so were all the others then), and their places.
const APPEND: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the log was made anew')
end
if ARGV[6] ~= '' and not redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[6], ARGV[6])[1] then
  return redis.error_reply('ORDER what comes before was refused')
end
if #ARGV == 6 then redis.call('HINCRBY', KEYS[1], 'last', 0) end
local time = redis.call('TIME')
local ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local places, seq = {}, nil
for i = 7, #ARGV, 5 do
  local number = ARGV[i]
  local known = redis.call('ZRANGEBYSCORE', KEYS[3], number, number)[1]
  if known then
    places[#places + 1] = string.match(known, '%d+$')
  else
    seq = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'last', 1))
    local add = {'XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], seq .. '-0', 't', ms, 'c', ARGV[i + 1], 'd', ARGV[i + 3]}
    if string.sub(ARGV[i + 2], 1, 1) == '+' then
      add[#add + 1] = 'n'
      add[#add + 1] = string.sub(ARGV[i + 2], 2)
    elseif string.sub(ARGV[i + 2], 1, 1) == '=' then
      add[#add + 1] = 'k'
      add[#add + 1] = string.sub(ARGV[i + 2], 2)
    end
    if ARGV[i + 4] ~= '' then
      add[#add + 1] = 'x'
      add[#add + 1] = ARGV[i + 4]
    end
    redis.call(unpack(add))
    redis.call('ZADD', KEYS[3], number, number .. ' ' .. seq)
    places[#places + 1] = seq
  end
end
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[5])
if seq then redis.call('PUBLISH', ARGV[3], seq) end
return {seq and ms or '', places}
";

/// Reads what follows a place. Keys: meta, log. Arguments: epoch, first place, most events, most bytes, the place before, when
/// the message there was stored.
const READ: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the log was made anew')
end
local last = redis.call('HGET', KEYS[1], 'last') or '0'
local lost = tonumber(last) < tonumber(ARGV[5])
if ARGV[6] ~= '' then
  local entry = redis.call('XRANGE', KEYS[2], ARGV[5] .. '-0', ARGV[5] .. '-0')[1]
  for i = 1, entry and #entry[2] or 0, 2 do
    if entry[2][i] == 't' and entry[2][i + 1] ~= ARGV[6] then lost = true end
  end
end
if lost then
  return redis.error_reply('LOST messages that were read')
end
local given, bytes, from = {}, 0, ARGV[2] .. '-0'
repeat
  local entries = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 16)
  for _, entry in ipairs(entries) do
    given[#given + 1] = entry
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    if #given >= tonumber(ARGV[3]) or bytes >= tonumber(ARGV[4]) then break end
    from = '(' .. entry[1]
  end
until #entries < 16 or #given >= tonumber(ARGV[3]) or bytes >= tonumber(ARGV[4])
return {last, given}
";

/// Looks for events of some channels between two places. Keys: meta, log. Arguments: epoch, first place, last place, most events
/// that are looked at, most bytes of them, then the channels. Gives where the log begins in this part, up to where it was looked
/// at, and what was found.
const PAST: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return {'', ARGV[3], {}}
end
local wanted = {}
for i = 6, #ARGV do wanted[ARGV[i]] = true end
local first, looked, bytes, given, from = '', 0, 0, {}, ARGV[2] .. '-0'
local last = ARGV[3]
repeat
  local entries = redis.call('XRANGE', KEYS[2], from, ARGV[3] .. '-0', 'COUNT', 16)
  for _, entry in ipairs(entries) do
    looked = looked + 1
    if first == '' then first = string.match(entry[1], '^%d+') end
    local fields, is_wanted = entry[2], false
    for i = 1, #fields, 2 do
      if fields[i] == 'c' and wanted[fields[i + 1]] then is_wanted = true end
    end
    if is_wanted then
      given[#given + 1] = entry
      for _, text in ipairs(fields) do bytes = bytes + #text end
    end
    from = '(' .. entry[1]
    if looked >= tonumber(ARGV[4]) or bytes >= tonumber(ARGV[5]) then
      return {first, string.match(entry[1], '^%d+'), given}
    end
  end
until #entries < 16
return {first, last, given}
";

pub(super) const SCRIPTS: [&[u8]; 4] = [OPEN, APPEND, READ, PAST];
pub(super) const SCRIPT_OPEN: usize = 0;
pub(super) const SCRIPT_APPEND: usize = 1;
pub(super) const SCRIPT_READ: usize = 2;
pub(super) const SCRIPT_PAST: usize = 3;
/// Most events that one script looks at for clients that have missed more than their node has: a millisecond or two, in which Redis
/// serves nobody else.
pub(super) const PAST_LOOKS_MAX: &[u8] = b"1024";
