-- YESSIR in RTCP, in Earmark's encoding (crates/wire/src/yessir).
--
--   tshark -X lua_script:dissectors/yessir.lua -r FILE
--
-- A postdissector: it looks into every UDP packet for a compound with an APP packet of the
-- name YSSR, whatever the ports. Add "-d udp.port==5001,rtcp" to see the rest of the compound, too.

local yessir = Proto("yessir", "YESSIR reservation in RTCP")

local FRAGMENTS = {
  [1] = "GENERIC", [2] = "FLOWSPEC_INTSERV", [3] = "FLOWSPEC_CODEC", [4] = "FLOWSPEC_CLASS",
  [5] = "FLOWSPEC_MEASURED", [6] = "LINK_INFO", [7] = "FAILURE", [8] = "AUTH",
  [9] = "TOKEN",
}
local COMMANDS = { [1] = "active", [2] = "passive", [3] = "release" }
local STYLES = { [1] = "individual", [2] = "shared" }
local SERVICES = { [2] = "guaranteed", [5] = "controlled load" }
local REASONS = {
  [1] = "bandwidth", [2] = "packet size", [3] = "not reservable", [4] = "limit", [5] = "traffic control",
  [6] = "flowspec", [7] = "preempted", [8] = "authorization",
}
local FAMILIES = { [1] = "IPv4", [2] = "IPv6" }

local f = yessir.fields
f.version = ProtoField.uint8("yessir.version", "Version")
f.ssrc = ProtoField.uint32("yessir.ssrc", "SSRC", base.HEX)
f.fragment = ProtoField.uint8("yessir.fragment", "Fragment", base.DEC, FRAGMENTS)
f.flags = ProtoField.uint8("yessir.flags", "Flags", base.HEX)
f.length = ProtoField.uint16("yessir.length", "Length")
f.command = ProtoField.uint8("yessir.command", "Command", base.DEC, COMMANDS)
f.style = ProtoField.uint8("yessir.style", "Style", base.DEC, STYLES)
f.interval = ProtoField.uint16("yessir.interval", "Refresh interval (s)")
f.reservation = ProtoField.uint32("yessir.reservation", "Reservation", base.HEX)
f.multiplexed = ProtoField.bool("yessir.multiplexed", "rtcp-mux")
f.rate = ProtoField.float("yessir.rate", "Token rate r (octets/s)")
f.depth = ProtoField.float("yessir.depth", "Bucket depth b (octets)")
f.peak = ProtoField.float("yessir.peak", "Peak rate p (octets/s)")
f.policed = ProtoField.uint32("yessir.min_policed_unit", "Minimum policed unit m (octets)")
f.packet = ProtoField.uint32("yessir.max_packet_size", "Maximum packet size M (octets)")
f.service = ProtoField.uint32("yessir.service", "Service", base.DEC, SERVICES)
f.reserved_rate = ProtoField.float("yessir.reserved_rate", "Reserved rate R (octets/s)")
f.slack = ProtoField.uint32("yessir.slack", "Slack S (us)")
f.payload_type = ProtoField.uint8("yessir.payload_type", "RTP payload type")
f.frames = ProtoField.uint8("yessir.frames", "Frames per packet")
f.dscp = ProtoField.uint8("yessir.dscp", "DSCP")
f.window = ProtoField.uint16("yessir.window", "Window (s)")
f.headroom = ProtoField.uint16("yessir.headroom", "Headroom (percent)")
f.send_ttl = ProtoField.uint8("yessir.send_ttl", "Sent with TTL")
f.hops = ProtoField.uint8("yessir.hops", "Hops")
f.other_hops = ProtoField.bool("yessir.other_hops", "A hop without YESSIR was seen")
f.mtu = ProtoField.uint16("yessir.path_mtu", "Path MTU (octets)")
f.available = ProtoField.float("yessir.available", "Available rate (octets/s)")
f.latency = ProtoField.uint32("yessir.latency", "Minimum latency (us)")
f.count = ProtoField.uint8("yessir.notes", "Notes")
f.family = ProtoField.uint8("yessir.note.family", "Address family", base.DEC, FAMILIES)
f.reason = ProtoField.uint8("yessir.note.reason", "Reason", base.DEC, REASONS)
f.hop = ProtoField.uint16("yessir.note.hop", "Hop")
f.note_available = ProtoField.float("yessir.note.available", "Available rate (octets/s)")
f.node4 = ProtoField.ipv4("yessir.note.node", "Node")
f.node6 = ProtoField.ipv6("yessir.note.node6", "Node")
f.key = ProtoField.uint32("yessir.key", "Key")
f.sequence = ProtoField.uint64("yessir.sequence", "Sequence number")
f.digest = ProtoField.bytes("yessir.digest", "Digest")
f.token = ProtoField.bytes("yessir.token", "Token")
f.data = ProtoField.bytes("yessir.data", "Data")
f.rest = ProtoField.bytes("yessir.rest", "Remaining octets")

local malformed = ProtoExpert.new("yessir.malformed", "Malformed YESSIR fragment", expert.group.MALFORMED, expert.severity.ERROR)
yessir.experts = { malformed }

-- A reader of a fragment's octets from front to back that never fails: a field whose octets are missing is left out but counts
-- for the length. So the same calls show the fields and tell which length the fragment should have. `claimed` is the length
-- that it claims; the first `at` octets are its header.
local function reader(there, tree, name, claimed, at)
  local r = { at = at, length = there:len(), tree = tree }
  local last, given_up = math.min(at, there:len()), false

  function r.left() return math.max(0, r.length - r.at) end

  -- The next octets; nil where they are not all there.
  function r.take(octets)
    local start = r.at
    r.at = r.at + octets
    if octets == 0 or r.at > r.length then return nil end
    last = r.at
    return there(start, octets)
  end

  function r.add(field, octets, into)
    local range = r.take(octets)
    if range then (into or tree):add(field, range) end
    return range
  end

  function r.skip(octets) r.take(octets) end

  -- Nothing behind this can be read.
  function r.give_up(why)
    given_up = true
    tree:add_proto_expert_info(malformed, name .. ": " .. why)
  end

  function r.done()
    local expected = claimed > r.length and claimed or r.at
    if not given_up and expected ~= r.length then
      local why = string.format("%s: expected %d octets, found %d", name, expected, r.length)
      tree:add_proto_expert_info(malformed, why)
    end
    if last < r.length then tree:add(f.rest, there(last, r.length - last)) end
  end

  return r
end

local readers = {}

readers[1] = function(r, flags)
  r.tree:add(f.multiplexed, flags, flags:uint() % 2 == 1)
  r.add(f.command, 1)
  r.add(f.style, 1)
  r.add(f.interval, 2)
  r.add(f.reservation, 4)
end

readers[2] = function(r)
  for _, field in ipairs({ f.rate, f.depth, f.peak, f.policed, f.packet }) do r.add(field, 4) end
  local service = r.add(f.service, 4)
  if service and service:uint() ~= 2 then return r.skip(8) end
  r.add(f.reserved_rate, 4)
  r.add(f.slack, 4)
end

readers[3] = function(r)
  r.add(f.payload_type, 1)
  r.add(f.frames, 1)
  r.skip(2)
end

readers[4] = function(r)
  r.add(f.dscp, 1)
  r.skip(3)
  r.add(f.rate, 4)
end

readers[5] = function(r)
  r.add(f.window, 2)
  r.add(f.headroom, 2)
end

readers[6] = function(r, flags)
  r.tree:add(f.send_ttl, flags)
  r.add(f.hops, 1)
  local bits = r.take(1)
  if bits then r.tree:add(f.other_hops, bits, bits:uint() % 2 == 1) end
  r.add(f.mtu, 2)
  r.add(f.available, 4)
  r.add(f.latency, 4)
end

readers[7] = function(r)
  local count = r.add(f.count, 1)
  r.skip(3)
  local seen = 0
  while r.left() > 0 do
    local family = r.take(1)
    local note = r.tree:add(family, "Note of failure")
    note:add(f.family, family)
    r.add(f.reason, 1, note)
    r.add(f.hop, 2, note)
    r.add(f.note_available, 4, note)
    if not FAMILIES[family:uint()] then return r.give_up("unknown address family " .. family:uint()) end
    local six = family:uint() == 2
    r.add(six and f.node6 or f.node4, six and 16 or 4, note)
    seen = seen + 1
  end
  if count and seen ~= count:uint() then
    r.tree:add_proto_expert_info(malformed, "the notes do not fit their count")
  end
end

readers[8] = function(r)
  r.add(f.key, 4)
  r.add(f.sequence, 8)
  r.add(f.digest, 16)
end

-- As many octets of padding follow the token as the flags say.
readers[9] = function(r, flags)
  local length = r.left() - flags:uint()
  if length <= 0 or flags:uint() > 3 then return r.give_up("no token") end
  r.add(f.token, length)
  r.skip(flags:uint())
end

local function fragments(data, tree)
  local at = 0
  while at < data:len() do
    local left = data:len() - at
    local number, length = data(at, 1):uint(), left >= 4 and data(at + 2, 2):uint() or 4
    local possible = length >= 4 and length % 4 == 0
    local there = possible and math.min(length, left) or left
    local name = FRAGMENTS[number] or "unknown"
    local one = tree:add(data(at, there), name)
    one:add(f.fragment, data(at, 1))
    if left >= 2 then one:add(f.flags, data(at + 1, 1)) end
    if left >= 4 then one:add(f.length, data(at + 2, 2)) end
    local r = reader(data(at, there), one, name, possible and length or there, 4)
    if not possible then
      r.give_up("impossible length " .. length)
    elseif readers[number] then
      if left >= 2 then readers[number](r, data(at + 1, 1)) end
    elseif r.left() > 0 then
      r.add(f.data, r.left())
    end
    r.done()
    at = at + there
  end
end

-- What stands in GENERIC, for the summary line.
local function summary(data)
  if data:len() >= 12 and data(0, 1):uint() == 1 then
    local command = COMMANDS[data(4, 1):uint()] or "unknown command"
    return "YESSIR " .. command
  end
  return "YESSIR"
end

-- Postdissectors see whole packets; the compounds are where UDP's payload is.
local udp_payload = Field.new("udp.payload")

function yessir.dissector(buffer, pinfo, root)
  local payload = udp_payload()
  if not payload then return end
  local compound = payload.range
  local at, shown = 0, nil
  while at + 4 <= compound:len() and at < 4096 do
    local first, kind = compound(at, 1):uint(), compound(at + 1, 1):uint()
    local length = 4 * (compound(at + 2, 2):uint() + 1)
    local there = math.min(length, compound:len() - at)
    if math.floor(first / 64) ~= 2 then break end
    if at == 0 and kind ~= 200 and kind ~= 201 then return end
    if kind == 204 and at + 12 <= compound:len() and compound(at + 8, 4):string() == "YSSR" then
      shown = root:add(yessir, compound(at, math.max(12, there)))
      shown:add(f.version, compound(at, 1), first % 32)
      shown:add(f.ssrc, compound(at + 4, 4))
      local size = there
      if first % 64 >= 32 and at + there == compound:len() and there == length then
        -- The last octet counts the padding.
        size = math.max(12, there - compound(at + there - 1, 1):uint())
      end
      if size > 12 then
        local data = compound(at + 12, size - 12)
        fragments(data, shown)
        pinfo.cols.info:append(" (" .. summary(data) .. ")")
      end
    end
    if shown and kind == 204 and length < 12 then
      shown:add_proto_expert_info(malformed, "impossible length " .. length .. " of the APP packet")
      if at + 12 < compound:len() then shown:add(f.rest, compound(at + 12, compound:len() - at - 12)) end
      return
    end
    if shown and there < length then
      local why = string.format("RTCP packet: expected %d octets, found %d", length, there)
      shown:add_proto_expert_info(malformed, why)
    end
    at = at + there
  end
  if shown and at < compound:len() then
    shown:add_proto_expert_info(malformed, "octets behind the last RTCP packet")
    shown:add(f.rest, compound(at, compound:len() - at))
  end
end

register_postdissector(yessir)
