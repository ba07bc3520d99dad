-- Checks first, then commands: all of them, or none. The only function of ours that writes.
--
-- The first argument is MessagePack: a list of checks and a list of commands, each a list of words.
-- Answers 'seconds microseconds', or, where there is a second argument, {0, '', seconds, microseconds, result of each
-- command}; where a check fails and nothing was written, {its number, what was found, seconds, microseconds}.
--
-- The first command must be one that a full server refuses: it is then refused before anything was written.

local holds = {}

function holds.value(key, expected) -- the record is still the one that was read; '' for none
  local found = redis.call('GET', key) or ''
  return found == expected, found
end

function holds.field(key, field, expected) -- the same for a field
  local found = redis.call('HGET', key, field) or ''
  return found == expected, found
end

function holds.free(key, field, holder) -- a name that nobody has, or the session itself
  local found = redis.call('HGET', key, field)
  return not found or found == holder, found or ''
end

function holds.there(key)
  return redis.call('EXISTS', key) == 1, ''
end

function holds.gone(key)
  return redis.call('EXISTS', key) == 0, ''
end

function holds.member(key, member)
  return redis.call('SISMEMBER', key, member) == 1, ''
end

function holds.within(key, ...) -- all members of an index are among these
  local known = {}
  for _, member in ipairs({...}) do known[member] = true end
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    if not known[member] then return false, member end
  end
  return true, ''
end

local now = redis.call('TIME')

local given = cmsgpack.unpack(ARGV[1])

for number, words in ipairs(given[1]) do
  local kept, found = holds[words[1]](unpack(words, 2))
  if not kept then return {number, found, now[1], now[2]} end
end

local answer = {0, '', now[1], now[2]}
for _, words in ipairs(given[2]) do
  answer[#answer + 1] = redis.call(unpack(words))
end
return ARGV[2] and answer or now[1] .. ' ' .. now[2]
