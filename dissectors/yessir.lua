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
}
local COMMANDS = { [1] = "active", [2] = "passive", [3] = "release" }
local STYLES = { [1] = "individual", [2] = "shared" }
local SERVICES = { [2] = "guaranteed", [5] = "controlled load" }
local REASONS = {
  [1] = "bandwidth", [2] = "packet size", [3] = "not reservable", [4] = "limit", [5] = "traffic control",
  [6] = "flowspec", [7] = "preempted",
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
f.data = ProtoField.bytes("yessir.data", "Data")

local malformed = ProtoExpert.new("yessir.malformed", "Malformed YESSIR fragment", expert.group.MALFORMED, expert.severity.ERROR)
yessir.experts = { malformed }

-- Body octets that each fragment has.
local BODIES = { [1] = 8, [2] = 32, [3] = 4, [4] = 8, [5] = 4, [6] = 12, [8] = 28 }

local readers = {}

readers[1] = function(body, tree, flags)
  tree:add(f.multiplexed, flags, flags:uint() % 2 == 1)
  tree:add(f.command, body(0, 1))
  tree:add(f.style, body(1, 1))
  tree:add(f.interval, body(2, 2))
  tree:add(f.reservation, body(4, 4))
end

readers[2] = function(body, tree)
  tree:add(f.rate, body(0, 4))
  tree:add(f.depth, body(4, 4))
  tree:add(f.peak, body(8, 4))
  tree:add(f.policed, body(12, 4))
  tree:add(f.packet, body(16, 4))
  tree:add(f.service, body(20, 4))
  if body(20, 4):uint() == 2 then
    tree:add(f.reserved_rate, body(24, 4))
    tree:add(f.slack, body(28, 4))
  end
end

readers[3] = function(body, tree)
  tree:add(f.payload_type, body(0, 1))
  tree:add(f.frames, body(1, 1))
end

readers[4] = function(body, tree)
  tree:add(f.dscp, body(0, 1))
  tree:add(f.rate, body(4, 4))
end

readers[5] = function(body, tree)
  tree:add(f.window, body(0, 2))
  tree:add(f.headroom, body(2, 2))
end

readers[6] = function(body, tree, flags)
  tree:add(f.send_ttl, flags)
  tree:add(f.hops, body(0, 1))
  tree:add(f.other_hops, body(1, 1), body(1, 1):uint() % 2 == 1)
  tree:add(f.mtu, body(2, 2))
  tree:add(f.available, body(4, 4))
  tree:add(f.latency, body(8, 4))
end

readers[7] = function(body, tree)
  tree:add(f.count, body(0, 1))
  local at, seen = 4, 0
  while at + 12 <= body:len() do
    local family = body(at, 1):uint()
    local length = family == 2 and 24 or 12
    if at + length > body:len() or not FAMILIES[family] then break end
    local note = tree:add(body(at, length), "Note of failure")
    note:add(f.family, body(at, 1))
    note:add(f.reason, body(at + 1, 1))
    note:add(f.hop, body(at + 2, 2))
    note:add(f.note_available, body(at + 4, 4))
    if family == 2 then
      note:add(f.node6, body(at + 8, 16))
    else
      note:add(f.node4, body(at + 8, 4))
    end
    at, seen = at + length, seen + 1
  end
  if at ~= body:len() or seen ~= body(0, 1):uint() then
    tree:add_proto_expert_info(malformed, "the notes do not fit their count")
  end
end

readers[8] = function(body, tree)
  tree:add(f.key, body(0, 4))
  tree:add(f.sequence, body(4, 8))
  tree:add(f.digest, body(12, 16))
end

local function fragments(data, tree)
  local at = 0
  while at + 4 <= data:len() do
    local number, length = data(at, 1):uint(), data(at + 2, 2):uint()
    if length < 4 or length % 4 ~= 0 or at + length > data:len() then
      tree:add_proto_expert_info(malformed, "a fragment's length leads astray")
      return
    end
    local name = FRAGMENTS[number] or "unknown"
    local one = tree:add(data(at, length), name)
    one:add(f.fragment, data(at, 1))
    one:add(f.flags, data(at + 1, 1))
    one:add(f.length, data(at + 2, 2))
    local wanted = BODIES[number]
    if wanted and wanted ~= length - 4 or number == 7 and length < 8 then
      one:add_proto_expert_info(malformed, "the length is not that of the fragment")
    elseif readers[number] then
      readers[number](data(at + 4, length - 4), one, data(at + 1, 1))
    elseif length > 4 then
      one:add(f.data, data(at + 4, length - 4))
    end
    at = at + length
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
  local at = 0
  while at + 12 <= compound:len() and at < 4096 do
    local first, kind = compound(at, 1):uint(), compound(at + 1, 1):uint()
    local length = 4 * (compound(at + 2, 2):uint() + 1)
    if math.floor(first / 64) ~= 2 or at + length > compound:len() then return end
    if at == 0 and kind ~= 200 and kind ~= 201 then return end
    if kind == 204 and length >= 12 and compound(at + 8, 4):string() == "YSSR" then
      local tree = root:add(yessir, compound(at, length))
      tree:add(f.version, compound(at, 1), first % 32)
      tree:add(f.ssrc, compound(at + 4, 4))
      if length > 12 then
        local data = compound(at + 12, length - 12)
        fragments(data, tree)
        pinfo.cols.info:append(" (" .. summary(data) .. ")")
      end
    end
    at = at + length
  end
end

register_postdissector(yessir)
