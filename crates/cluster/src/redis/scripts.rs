//! Lua scripts, which make each step atomic: opening the log, appending, reading, and searching older messages.

/// Maximum number of records per append.
pub(super) const APPEND_MAX: usize = 64;
/// Maximum number of events per read.
pub(super) const READ_MAX: &[u8] = b"512";
/// Number of bytes after which a read stops. Redis closes a subscribed connection with too much pending output
/// (`client-output-buffer-limit`).
pub(super) const READ_BYTES_MAX: &[u8] = b"2097152";
/// Rank up to which an append removes records from `sent`, counted from the newest record, which has the rank -1. The newest
/// 4,096 remain. They include all that a node may send again, at most `IN_FLIGHT_MAX`.
pub(super) const SENT_RANK: &[u8] = b"-4097";
/// Seconds after the last append of an outbox at which Redis drops its `sent`.
pub(super) const SENT_SECONDS: &[u8] = b"600";
/// Arguments per appended record.
pub(super) const RECORD_ARGUMENTS: usize = 5;

/// Opens the log. The log gets the epoch of `ARGV[1]` if it has none, or if it has lost messages that the node knows. It has
/// lost messages if its epoch is older than the node's, if it ends before the node's last sequence, or if the message at that
/// sequence was stored at another time.
///
/// - `KEYS`: meta, log
/// - `ARGV[1]`: epoch to set if a new one is needed
/// - `ARGV[2]`: newest epoch that the node knows, or empty
/// - `ARGV[3]`: last sequence that the node knows in that epoch
/// - `ARGV[4]`: time when the log stored the message at that sequence, or empty if unknown
///
/// Returns the epoch, the last sequence, the oldest sequence (0 if the log is empty), 1 if messages were lost or else 0, and
/// the time when the newest message was stored.
const OPEN: &[u8] = br"
local epoch = redis.call('HGET', KEYS[1], 'epoch')
local last = redis.call('HGET', KEYS[1], 'last') or '0'
local newest = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
local stored = ''
if newest then
  for i = 1, #newest[2], 2 do
    if newest[2][i] == 't' then stored = newest[2][i + 1] end
  end
  local id = string.match(newest[1], '^%d+')
  if tonumber(id) > tonumber(last) then
    last = id
    redis.call('HSET', KEYS[1], 'last', id)
  end
end
local lost = 0
if epoch and ARGV[2] ~= '' and tonumber(epoch) < tonumber(ARGV[2]) then
  lost = 1
elseif epoch and epoch == ARGV[2] then
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
return {epoch, last, oldest and string.match(oldest[1], '^%d+') or '0', lost, stored}
";

/// Appends records, each once: a record whose number is in `sent` is not appended again. Without records the script only tests
/// whether the server accepts writes.
///
/// - `KEYS`: meta, log, sent
/// - `ARGV[1]`: epoch; the script fails with `EPOCH` if the log has another one
/// - `ARGV[2]`: maximum number of events of the log
/// - `ARGV[3]`: channel on which the last sequence is published
/// - `ARGV[4]`: rank up to which records are removed from `sent`
/// - `ARGV[5]`: seconds after which `sent` expires
/// - `ARGV[6]`: number of the record before these records; if `sent` lacks it, the script fails with `ORDER`; empty for no
///   check
/// - `ARGV[7]`: fingerprint of the application, or empty
/// - five arguments per record: number; channel; `+` and the name, `-` for no name, or `=` and the kind; data; socket to skip,
///   or empty
///
/// Returns the time when the new records were stored (empty if no record was new), and the sequence of each record.
const APPEND: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the log was recreated')
end
if ARGV[6] ~= '' and not redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[6], ARGV[6])[1] then
  return redis.error_reply('ORDER what comes before was refused')
end
if #ARGV == 7 then redis.call('HINCRBY', KEYS[1], 'last', 0) end
local time = redis.call('TIME')
local ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local places, seq = {}, nil
for i = 8, #ARGV, 5 do
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
    if ARGV[7] ~= '' then
      add[#add + 1] = 'a'
      add[#add + 1] = ARGV[7]
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

/// Reads messages from a sequence on. Fails with `EPOCH` if the log has another epoch, and with `LOST` if it lacks the message
/// that was read last or has a different one at its position.
///
/// - `KEYS`: meta, log
/// - `ARGV[1]`: epoch
/// - `ARGV[2]`: first sequence to read
/// - `ARGV[3]`: maximum number of messages
/// - `ARGV[4]`: number of bytes after which the script stops
/// - `ARGV[5]`: sequence that was read last
/// - `ARGV[6]`: time when the log stored the message at that sequence, or empty if unknown
///
/// Returns the log's last sequence and the messages.
const READ: &[u8] = br"
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return redis.error_reply('EPOCH the log was recreated')
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

/// Searches the messages of some channels between two sequences.
///
/// - `KEYS`: meta, log
/// - `ARGV[1]`: epoch; if the log has another one, the script finds nothing
/// - `ARGV[2]`, `ARGV[3]`: first and last sequence
/// - `ARGV[4]`: maximum number of messages that are examined
/// - `ARGV[5]`: number of bytes in the result after which the script stops
/// - from `ARGV[6]` on: the channels
///
/// Returns the first sequence that the log has in this range (empty if none), the last sequence that was examined, and the
/// messages.
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
/// Maximum number of messages that one search examines. A search takes one or two milliseconds, in which Redis serves no other
/// client.
pub(super) const PAST_LOOKS_MAX: &[u8] = b"1024";
