-- Boomerang in Wireshark: reservation messages in the data of ICMP and ICMPv6 echoes, told by their magic number.
--
--   tshark -X lua_script:dissectors/boomerang.lua -r capture.pcap -Y boomerang
--
-- The layout is that of crates/wire/src/boomerang.

local boomerang = Proto("boomerang", "Boomerang reservation")

local MAGIC = 0x47114711
local TYPES = { [0x10] = "reservation", [0x20] = "DS marker set-up" }
local REQUESTS = { [0x10] = "Reservation", [0x20] = "DS marker set-up" }
local FAMILIES = { [0x2] = "IPv4", [0xa] = "IPv6" }
local QOS = { [0x1] = "bitrate", [0x2] = "IntServ", [0x3] = "downgrade" }
local OPTIONS = {
  [1] = "user id and credential", [2] = "aggregation", [3] = "participation record", [4] = "token",
}

local f = boomerang.fields
f.transaction = ProtoField.uint32("boomerang.transaction_id", "Transaction ID", base.HEX)
f.type = ProtoField.uint8("boomerang.type", "Type", base.HEX, TYPES)
f.request = ProtoField.string("boomerang.request", "Request")
f.family = ProtoField.uint8("boomerang.family", "Address family", base.HEX, FAMILIES, 0x0f)
f.qos = ProtoField.uint8("boomerang.qos", "QoS format", base.HEX, QOS, 0xf0)
f.flags = ProtoField.uint16("boomerang.flags", "Flags", base.HEX)
f.nack = ProtoField.bool("boomerang.flags.nack", "NACK", 16, nil, 0x0001)
f.no_echo = ProtoField.bool("boomerang.flags.no_echo", "NO_ECHO", 16, nil, 0x0002)
f.refresh = ProtoField.uint8("boomerang.refresh_int", "Refresh interval (s)")
f.version = ProtoField.uint8("boomerang.version", "Version")
f.key = ProtoField.uint64("boomerang.key", "Key")
f.forward = ProtoField.uint32("boomerang.forward", "Forward rate (bit/s)")
f.reverse = ProtoField.uint32("boomerang.reverse", "Reverse rate (bit/s)")
f.vec_size = ProtoField.uint8("boomerang.vec_size", "Pairs of rates")
f.policy = ProtoField.uint16("boomerang.policy", "Policy", base.HEX)
f.body = ProtoField.bytes("boomerang.body", "Body without a published layout")
f.option = ProtoField.uint16("boomerang.option", "Option", base.DEC, OPTIONS)
f.option_flags = ProtoField.uint16("boomerang.option.flags", "Option flags", base.HEX)
f.leaves = ProtoField.bool("boomerang.option.leaves", "LEAVES", 16, nil, 0x0001)
f.raises = ProtoField.bool("boomerang.option.raises", "RAISES", 16, nil, 0x0002)
f.user = ProtoField.string("boomerang.user", "User id")
f.credential = ProtoField.bytes("boomerang.credential", "Credential")
f.node4 = ProtoField.ipv4("boomerang.node", "Aggregating node")
f.node6 = ProtoField.ipv6("boomerang.node6", "Aggregating node")
f.an_transaction = ProtoField.uint32("boomerang.an_transaction_id", "Transaction ID of the aggregate", base.HEX)
f.rate = ProtoField.uint32("boomerang.aggregate_rate", "Rate of the aggregate (bit/s)")
f.record4 = ProtoField.ipv4("boomerang.record.node", "Node")
f.record6 = ProtoField.ipv6("boomerang.record.node6", "Node")
f.forward_nodes = ProtoField.uint8("boomerang.record.forward_nodes", "Nodes that reserved on the outward pass")
f.forward_gaps = ProtoField.uint8("boomerang.record.forward_gaps", "Routers between them without Boomerang")
f.reverse_nodes = ProtoField.uint8("boomerang.record.reverse_nodes", "Nodes that reserved on the return pass")
f.reverse_gaps = ProtoField.uint8("boomerang.record.reverse_gaps", "Routers between them without Boomerang")
f.ttl = ProtoField.uint8("boomerang.record.ttl", "TTL of the last node")
f.token = ProtoField.bytes("boomerang.token", "Token")
f.rest = ProtoField.bytes("boomerang.rest", "Remaining octets")

-- The keys of a flow occur as classifier and as mask, in a message and in its options.
local function key_fields(name, text)
  local prefix = "boomerang." .. name
  local keys = {
    source4 = ProtoField.ipv4(prefix .. ".source", text .. " source"),
    source6 = ProtoField.ipv6(prefix .. ".source6", text .. " source"),
    destination4 = ProtoField.ipv4(prefix .. ".destination", text .. " destination"),
    destination6 = ProtoField.ipv6(prefix .. ".destination6", text .. " destination"),
    source_port = ProtoField.uint16(prefix .. ".source_port", text .. " source port"),
    destination_port = ProtoField.uint16(prefix .. ".destination_port", text .. " destination port"),
    protocol = ProtoField.uint8(prefix .. ".protocol", text .. " protocol"),
    tos = ProtoField.uint8(prefix .. ".tos", text .. " type of service", base.HEX),
    flags = ProtoField.uint16(prefix .. ".flags", text .. " flags", base.HEX),
  }
  for part, field in pairs(keys) do
    f[name .. "_" .. part] = field
  end
  return keys
end

local CLASSIFIER = key_fields("classifier", "Classifier")
local MASK = key_fields("mask", "Mask")

local faults = boomerang.experts
faults.short = ProtoExpert.new("boomerang.short", "The message ends too early", expert.group.MALFORMED, expert.severity.ERROR)
faults.unknown = ProtoExpert.new("boomerang.unknown", "Unknown layout", expert.group.UNDECODED, expert.severity.WARN)
faults.version = ProtoExpert.new("boomerang.bad_version", "Not version 1", expert.group.PROTOCOL, expert.severity.WARN)

-- A reader of the message from front to back that never fails: from the first field on whose octets are not all there, it shows
-- nothing more, and marks the object once.
local function reader(buffer, at)
  local r = { at = at, length = buffer:len(), broken = false }

  function r.left() return r.length - r.at end

  function r.give_up(tree, fault, why)
    if r.broken then return end
    r.broken = true
    tree:add_proto_expert_info(fault, why)
    if r.left() > 0 then tree:add(f.rest, buffer(r.at)) end
  end

  -- The next octets; nil where they are not all there.
  function r.take(octets, tree, name)
    if r.broken then return nil end
    if octets > r.left() then
      r.give_up(tree, faults.short, string.format("%s: expected %d octets, found %d", name, octets, r.left()))
      return nil
    end
    r.at = r.at + octets
    return buffer(r.at - octets, octets)
  end

  -- Shows the next octets as a field; gives its range and its item.
  function r.add(field, octets, tree)
    local range = r.take(octets, tree, field and "field" or "padding")
    if range and field then return range, tree:add(field, range) end
    return range
  end

  return r
end

local function show_keys(r, tree, fields, six)
  local length = six and 16 or 4
  r.add(six and fields.source6 or fields.source4, length, tree)
  r.add(six and fields.destination6 or fields.destination4, length, tree)
  r.add(fields.source_port, 2, tree)
  r.add(fields.destination_port, 2, tree)
  r.add(fields.protocol, 1, tree)
  r.add(fields.tos, 1, tree)
  r.add(fields.flags, 2, tree)
end

-- A pair of rates; gives them as text, and whether there are any.
local function show_rates(r, tree)
  local forward, reverse = r.add(f.forward, 4, tree), r.add(f.reverse, 4, tree)
  if not reverse then return "", false end
  local rates = string.format(", %d/%d bit/s", forward:uint(), reverse:uint())
  return rates, forward:uint() ~= 0 or reverse:uint() ~= 0
end

local function show_record(r, option, six)
  for _ = 1, 4 do r.add(six and f.record6 or f.record4, six and 16 or 4, option) end
  for _, field in ipairs({ f.forward_nodes, f.forward_gaps, f.reverse_nodes, f.reverse_gaps, f.ttl }) do
    r.add(field, 1, option)
  end
  r.add(nil, 3, option)
end

-- Options have no length, so behind one that is not known nothing can be read.
local function show_options(r, buffer, tree, six)
  while not r.broken and r.left() > 0 do
    local start = r.at
    local range, option = r.add(f.option, 2, tree)
    if not range then return end
    local code = range:uint()
    if not OPTIONS[code] then
      return r.give_up(option, faults.unknown, "unknown option: it takes the rest of the message")
    end
    local flags, flags_item = r.add(f.option_flags, 2, option)
    if code == 1 then
      r.add(f.user, 8, option)
      r.add(f.credential, 8, option)
    elseif code == 2 then
      if flags then
        flags_item:add(f.leaves, flags)
        flags_item:add(f.raises, flags)
      end
      r.add(six and f.node6 or f.node4, six and 16 or 4, option)
      r.add(f.an_transaction, 4, option)
      show_keys(r, option, CLASSIFIER, six)
      show_keys(r, option, MASK, six)
      r.add(f.rate, 4, option)
    elseif code == 3 then
      show_record(r, option, six)
    elseif flags then
      -- The flags are the length of the token; zeros complete its last word.
      local length = flags:uint()
      if length == 0 then return r.give_up(option, faults.short, "the token is empty") end
      r.add(f.token, length, option)
      if length % 4 > 0 then r.add(nil, 4 - length % 4, option) end
    end
    if not r.broken then option:set_len(r.at - start) end
  end
end

-- Shows what is behind the container header; gives the name of the request and its rates as text.
local function show_reservation(r, buffer, tree, format, is_refused)
  r.add(f.refresh, 1, tree)
  local version = r.add(f.version, 1, tree)
  if version and version:uint() ~= 1 then tree:add_proto_expert_info(faults.version) end
  r.add(nil, 2, tree)
  r.add(f.key, 8, tree)
  local six, qos = format % 16 == 0xa, math.floor(format / 16)
  if not FAMILIES[format % 16] then
    r.give_up(tree, faults.unknown, "unknown address family")
    return "Reservation", ""
  end
  show_keys(r, tree, CLASSIFIER, six)
  show_keys(r, tree, MASK, six)
  if qos ~= 0x1 and qos ~= 0x3 then
    if not r.broken and r.left() > 0 then tree:add(f.body, buffer(r.at)) end
    if not QOS[qos] then tree:add_proto_expert_info(faults.unknown, "unknown QoS format") end
    return "Reservation", ", " .. (QOS[qos] or "unknown QoS format")
  end
  local pairs_of_rates = 1
  if qos == 0x3 then
    local size = r.add(f.vec_size, 1, tree)
    r.add(f.policy, 2, tree)
    r.add(nil, 1, tree)
    pairs_of_rates = size and size:uint() or 0
    if size and pairs_of_rates == 0 then tree:add_proto_expert_info(faults.short, "the list of rates is empty") end
  end
  local first, something = "", pairs_of_rates == 0
  for pair = 1, pairs_of_rates do
    local rates, some = show_rates(r, tree)
    if pair == 1 then first = rates end
    something = something or some or r.broken
  end
  show_options(r, buffer, tree, six)
  -- A request for nothing, which no node has refused, releases the reservation.
  if not something and not is_refused then return "Release", "" end
  return "Reservation", first
end

function boomerang.dissector(buffer, packet, root)
  if buffer:len() < 4 then return 0 end
  packet.cols.protocol = "BOOMERANG"
  local tree = root:add(boomerang, buffer())
  local r = reader(buffer, 4)
  r.add(f.transaction, 4, tree)
  local kind = r.add(f.type, 1, tree)
  local format = r.add(f.family, 1, tree)
  if format then tree:add(f.qos, format) end
  local flags, flags_item = r.add(f.flags, 2, tree)
  if flags then
    flags_item:add(f.nack, flags)
    flags_item:add(f.no_echo, flags)
  end
  local is_refused = flags and flags:uint() % 2 == 1
  local name, rates = kind and REQUESTS[kind:uint()] or "unknown", ""
  if flags and kind:uint() == 0x10 then
    name, rates = show_reservation(r, buffer, tree, format:uint(), is_refused)
  elseif flags then
    if not TYPES[kind:uint()] then tree:add_proto_expert_info(faults.unknown, "unknown type") end
    if r.left() > 0 then tree:add(f.body, buffer(r.at)) end
  end
  tree:add(f.request, buffer(0, buffer:len()), name):set_generated()
  tree:append_text(", " .. name)
  packet.cols.info:append(" Boomerang " .. name .. rates .. (is_refused and ", NACK" or ""))
  return buffer:len()
end

local function is_boomerang(buffer, packet, root)
  if buffer:len() < 4 or buffer(0, 4):uint() ~= MAGIC then
    return false
  end
  boomerang.dissector(buffer, packet, root)
  return true
end

boomerang:register_heuristic("icmp", is_boomerang)
-- Versions of Wireshark differ in whether ICMPv6 has a list of its own.
pcall(function()
  boomerang:register_heuristic("icmpv6", is_boomerang)
end)
