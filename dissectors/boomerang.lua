-- Boomerang in Wireshark: reservation messages in the data of ICMP and ICMPv6 echoes, told by their magic number.
--
--   tshark -X lua_script:dissectors/boomerang.lua -r capture.pcap -Y boomerang
--
-- The layout is that of crates/wire/src/boomerang.

local boomerang = Proto("boomerang", "Boomerang reservation")

local MAGIC = 0x47114711
local TYPES = { [0x10] = "reservation", [0x20] = "DS marker set-up" }
local FAMILIES = { [0x2] = "IPv4", [0xa] = "IPv6" }
local QOS = { [0x1] = "bitrate", [0x2] = "IntServ", [0x3] = "downgrade" }
local OPTIONS = { [1] = "user id and credential", [2] = "aggregation", [3] = "participation record" }

local f = boomerang.fields
f.transaction = ProtoField.uint32("boomerang.transaction_id", "Transaction ID", base.HEX)
f.type = ProtoField.uint8("boomerang.type", "Type", base.HEX, TYPES)
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
f.rest = ProtoField.bytes("boomerang.rest", "Unknown")

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
faults.version = ProtoExpert.new("boomerang.bad_version", "Not version 1", expert.group.PROTOCOL, expert.severity.WARN)

-- Shows the keys at an offset, and gives the offset behind them.
local function show_keys(buffer, tree, at, fields, six)
  local length = six and 16 or 4
  tree:add(six and fields.source6 or fields.source4, buffer(at, length))
  tree:add(six and fields.destination6 or fields.destination4, buffer(at + length, length))
  at = at + 2 * length
  tree:add(fields.source_port, buffer(at, 2))
  tree:add(fields.destination_port, buffer(at + 2, 2))
  tree:add(fields.protocol, buffer(at + 4, 1))
  tree:add(fields.tos, buffer(at + 5, 1))
  tree:add(fields.flags, buffer(at + 6, 2))
  return at + 8
end

local function show_rates(buffer, tree, at)
  tree:add(f.forward, buffer(at, 4))
  tree:add(f.reverse, buffer(at + 4, 4))
  return at + 8
end

-- Options have no length, so behind one that is not known nothing can be read.
local function show_options(buffer, tree, at, six)
  local keys = six and 40 or 16
  local address = six and 16 or 4
  while at + 4 <= buffer:len() do
    local code = buffer(at, 2):uint()
    local length = code == 1 and 20 or code == 2 and 4 + address + 4 + 2 * keys + 4
      or code == 3 and 4 + 4 * address + 8
    if not length then
      tree:add(f.option, buffer(at, 2))
      break
    end
    if at + length > buffer:len() then
      tree:add_proto_expert_info(faults.short)
      return
    end
    local option = tree:add(f.option, buffer(at, 2))
    option:set_len(length)
    local flags = option:add(f.option_flags, buffer(at + 2, 2))
    if code == 1 then
      option:add(f.user, buffer(at + 4, 8))
      option:add(f.credential, buffer(at + 12, 8))
    elseif code == 2 then
      flags:add(f.leaves, buffer(at + 2, 2))
      flags:add(f.raises, buffer(at + 2, 2))
      option:add(six and f.node6 or f.node4, buffer(at + 4, address))
      option:add(f.an_transaction, buffer(at + 4 + address, 4))
      local next = show_keys(buffer, option, at + 8 + address, CLASSIFIER, six)
      next = show_keys(buffer, option, next, MASK, six)
      option:add(f.rate, buffer(next, 4))
    end
    at = at + length
  end
  if at < buffer:len() then
    tree:add(f.rest, buffer(at))
  end
end

local function show_reservation(buffer, tree, format)
  local six = format % 16 == 0xa
  local qos = math.floor(format / 16)
  local at = 24 + 2 * (six and 40 or 16)
  if buffer:len() < at + 4 then
    tree:add_proto_expert_info(faults.short)
    return ""
  end
  tree:add(f.refresh, buffer(12, 1))
  tree:add(f.version, buffer(13, 1))
  if buffer(13, 1):uint() ~= 1 then
    tree:add_proto_expert_info(faults.version)
  end
  tree:add(f.key, buffer(16, 8))
  show_keys(buffer, tree, show_keys(buffer, tree, 24, CLASSIFIER, six), MASK, six)
  if qos == 0x2 then
    tree:add(f.body, buffer(at))
    return ", IntServ"
  end
  local pairs_of_rates = 1
  if qos == 0x3 then
    pairs_of_rates = buffer(at, 1):uint()
    tree:add(f.vec_size, buffer(at, 1))
    tree:add(f.policy, buffer(at + 1, 2))
    at = at + 4
  end
  if pairs_of_rates == 0 or buffer:len() < at + 8 * pairs_of_rates then
    tree:add_proto_expert_info(faults.short)
    return ""
  end
  local said = string.format(", %d/%d bit/s", buffer(at, 4):uint(), buffer(at + 4, 4):uint())
  for _ = 1, pairs_of_rates do
    at = show_rates(buffer, tree, at)
  end
  show_options(buffer, tree, at, six)
  return said
end

function boomerang.dissector(buffer, packet, root)
  if buffer:len() < 12 then
    return 0
  end
  packet.cols.protocol = "BOOMERANG"
  local tree = root:add(boomerang, buffer())
  tree:add(f.transaction, buffer(4, 4))
  tree:add(f.type, buffer(8, 1))
  tree:add(f.family, buffer(9, 1))
  tree:add(f.qos, buffer(9, 1))
  local flags = tree:add(f.flags, buffer(10, 2))
  flags:add(f.nack, buffer(10, 2))
  flags:add(f.no_echo, buffer(10, 2))
  local said = ""
  if buffer(8, 1):uint() == 0x10 then
    said = show_reservation(buffer, tree, buffer(9, 1):uint())
  else
    tree:add(f.body, buffer(12))
  end
  local nack = buffer(10, 2):uint() % 2 == 1 and ", NACK" or ""
  packet.cols.info:append(" Boomerang " .. (TYPES[buffer(8, 1):uint()] or "?") .. said .. nack)
  return buffer:len()
end

local function is_boomerang(buffer, packet, root)
  if buffer:len() < 12 or buffer(0, 4):uint() ~= MAGIC then
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
