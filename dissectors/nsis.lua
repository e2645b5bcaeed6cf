-- NSIS: GIST (RFC 5971), QoS NSLP (RFC 5974), QSPEC (RFC 5975), NATFW NSLP (RFC 5973), and Ping NSLP in Earmark's form.
--
--   tshark -X lua_script:dissectors/nsis.lua -r FILE
--
-- Datagrams are those of UDP port 270 that begin with the magic number. Associations have no port of their own: Earmark
-- takes 270 if nothing is set, another is told by the preference gist.tcp_port (-o gist.tcp_port:4711). TLS hides all.
-- Another application adds itself to the table gist.nslpid.

local gist = Proto("gist", "General Internet Signalling Transport")
local qos = Proto("qosnslp", "QoS NSLP")
local qspec = Proto("qspec", "QSPEC")
local natfw = Proto("natfwnslp", "NATFW NSLP")
local ping = Proto("pingnslp", "Ping NSLP")

gist.prefs.tcp_port = Pref.uint("TCP port of associations", 270, "0 for none")

local MAGIC = 0x4e04bda5
local TYPES = { [0] = "Query", [1] = "Response", [2] = "Confirm", [3] = "Data", [4] = "Error", [5] = "MA-Hello" }
local OBJECTS = {
  [0] = "Message-Routing-Information", [1] = "Session-Identifier", [2] = "Network-Layer-Information",
  [3] = "Stack-Proposal", [4] = "Stack-Configuration-Data", [5] = "Query-Cookie", [6] = "Responder-Cookie",
  [7] = "NAT-Traversal", [8] = "NSLP-Data", [9] = "Error", [10] = "Hello-ID",
}
local METHODS = { [0] = "Path-Coupled", [1] = "Loose-End" }
local DIRECTIONS = { [0] = "downstream", [1] = "upstream" }
local PROTOCOLS = { [1] = "Forwards-TCP", [2] = "TLS", [3] = "Forwards-SCTP", [4] = "DTLS" }
local TREATMENTS = { [0] = "mandatory", [1] = "ignore", [2] = "forward", [3] = "refresh" }
local ERROR_CLASSES = {
  [0] = "Informational", [1] = "Success", [2] = "Protocol-Error", [3] = "Transient-Failure", [4] = "Permanent-Failure",
}
local ERRORS = {
  [1] = "Common Header Parse Error", [2] = "Hop Limit Exceeded", [3] = "Incorrect Encapsulation",
  [4] = "Incorrectly Delivered Message", [5] = "No Routing State", [6] = "Unknown NSLPID", [7] = "Endpoint Found",
  [8] = "Message Too Large", [9] = "Object Type Error", [10] = "Object Value Error", [11] = "Invalid IP-Layer TTL",
  [12] = "MRI Validation Failure",
}
local INFOS = { [1] = "Message Length", [2] = "MTU", [3] = "Object Type", [4] = "Object Value" }

local g = gist.fields
g.version = ProtoField.uint8("gist.version", "Version")
g.hops = ProtoField.uint8("gist.hops", "GIST hops")
g.words = ProtoField.uint16("gist.length", "Length (words)")
g.nslpid = ProtoField.uint16("gist.nslpid", "NSLPID")
g.context_free = ProtoField.bool("gist.flags.c", "C: context-free", 8, nil, 0x80)
g.type = ProtoField.uint8("gist.type", "Type", base.DEC, TYPES, 0x7f)
g.source = ProtoField.bool("gist.flags.s", "S: the IP source is the peer", 8, nil, 0x80)
g.reply = ProtoField.bool("gist.flags.r", "R: a reply is asked for", 8, nil, 0x40)
g.explicit = ProtoField.bool("gist.flags.e", "E: explicitly routed", 8, nil, 0x20)
g.object = ProtoField.uint16("gist.object", "Object", base.DEC, OBJECTS, 0x0fff)
g.treatment = ProtoField.uint16("gist.object.treatment", "If unknown", base.DEC, TREATMENTS, 0xc000)
g.object_words = ProtoField.uint16("gist.object.length", "Length (words)", base.DEC, nil, 0x0fff)
g.method = ProtoField.uint8("gist.mri.method", "Method", base.DEC, METHODS)
g.source4 = ProtoField.ipv4("gist.mri.source", "Source")
g.destination4 = ProtoField.ipv4("gist.mri.destination", "Destination")
g.source6 = ProtoField.ipv6("gist.mri.source6", "Source")
g.destination6 = ProtoField.ipv6("gist.mri.destination6", "Destination")
g.source_prefix = ProtoField.uint8("gist.mri.source_prefix", "Source prefix")
g.destination_prefix = ProtoField.uint8("gist.mri.destination_prefix", "Destination prefix")
g.protocol = ProtoField.uint8("gist.mri.protocol", "Protocol")
g.dscp = ProtoField.uint8("gist.mri.dscp", "DSCP", base.DEC, nil, 0xfc)
g.flow_label = ProtoField.uint32("gist.mri.flow_label", "Flow label", base.HEX, nil, 0xfffff)
g.spi = ProtoField.uint32("gist.mri.spi", "SPI", base.HEX)
g.source_port = ProtoField.uint16("gist.mri.source_port", "Source port")
g.destination_port = ProtoField.uint16("gist.mri.destination_port", "Destination port")
g.direction = ProtoField.uint8("gist.mri.direction", "Direction", base.DEC, DIRECTIONS)
g.session = ProtoField.bytes("gist.session", "Session")
g.ip_ttl = ProtoField.uint8("gist.nli.ip_ttl", "IP TTL")
g.validity = ProtoField.uint32("gist.nli.validity", "Routing state validity (ms)")
g.identity = ProtoField.bytes("gist.nli.peer_identity", "Peer identity")
g.interface4 = ProtoField.ipv4("gist.nli.interface", "Interface address")
g.interface6 = ProtoField.ipv6("gist.nli.interface6", "Interface address")
g.profile = ProtoField.bytes("gist.stack.profile", "Profile")
g.layer = ProtoField.uint8("gist.stack.protocol", "Protocol", base.DEC, PROTOCOLS)
g.hold_time = ProtoField.uint32("gist.stack.hold_time", "MA hold time (ms)")
g.option = ProtoField.uint8("gist.stack.option", "Options of", base.DEC, PROTOCOLS)
g.option_profile = ProtoField.uint8("gist.stack.option.profile", "In profile")
g.unusable = ProtoField.bool("gist.stack.option.unusable", "D: not to be used", 8, nil, 0x80)
g.tcp_port = ProtoField.uint16("gist.stack.port", "Port")
g.cookie = ProtoField.bytes("gist.cookie", "Cookie")
g.hello = ProtoField.uint32("gist.hello_id", "Hello-ID")
g.error_class = ProtoField.uint8("gist.error.class", "Class", base.DEC, ERROR_CLASSES)
g.error = ProtoField.uint16("gist.error.code", "Error", base.DEC, ERRORS)
g.subcode = ProtoField.uint8("gist.error.subcode", "Subcode")
g.error_flags = ProtoField.uint8("gist.error.flags", "Flags (S, M, C, D, Q)", base.HEX)
g.original = ProtoField.bytes("gist.error.original", "Original common header")
g.info = ProtoField.uint16("gist.error.info", "Additional information", base.DEC, INFOS)
g.info_value = ProtoField.uint16("gist.error.info.value", "Value")
g.comment = ProtoField.string("gist.error.comment", "Comment")
g.translated = ProtoField.uint16("gist.nat.translated", "Translated object", base.DEC, OBJECTS, 0x0fff)
g.opaque = ProtoField.bytes("gist.nat.opaque", "Data of a translator")
g.data = ProtoField.bytes("gist.data", "Data")

-- Of each protocol: what is malformed, what is allowed but probably not meant, and octets that belong to no field.
local bad, odd, rests = {}, {}, {}
for name, proto in pairs({ gist = gist, qosnslp = qos, qspec = qspec, natfwnslp = natfw, pingnslp = ping }) do
  bad[name] = ProtoExpert.new(name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
  odd[name] = ProtoExpert.new(name .. ".warning", "Probably not meant", expert.group.PROTOCOL, expert.severity.WARN)
  proto.experts = { bad[name], odd[name] }
  rests[name] = ProtoField.bytes(name .. ".rest", "Remaining octets")
  proto.fields.rest = rests[name]
end

local nslps = DissectorTable.new("gist.nslpid", "NSLPID of GIST", ftypes.UINT16, base.DEC, gist)

local function padded(octets) return math.floor((octets + 3) / 4) * 4 end

-- A reader of an object's octets from front to back, `there` (nil for none), that never fails: a field whose octets are
-- missing is left out but counts for the length. So the same calls show the fields and tell which length the object should
-- have. `claimed` is the length that the object claims, `header` the length of the header in front of `there`.
local function reader(there, tree, whose, name, claimed, header)
  local r = { at = 0, length = there and there:len() or 0, tree = tree, whose = whose }
  local last, given_up = 0, false

  function r.left() return math.max(0, r.length - r.at) end

  -- The next octets; nil where they are not all there, or none.
  function r.take(octets)
    local at = r.at
    r.at = at + octets
    if r.at > r.length then return nil end
    last = r.at
    if octets > 0 then return there(at, octets) end
  end

  -- Shows the next octets as a field; gives its range.
  function r.add(field, octets, into)
    local range = r.take(octets)
    if range then (into or tree):add(field, range) end
    return range
  end

  function r.skip(octets) r.take(octets) end

  -- Octets that are there, without taking them.
  function r.peek(octets) return there(r.at, octets) end

  -- All octets that are left, as a field.
  function r.remaining(field)
    if r.left() > 0 then r.add(field, r.left()) end
  end

  -- So many octets each, up to the end.
  function r.list(field, octets)
    while r.left() > 0 and r.add(field, octets) do end
  end

  -- A reader of the next octets alone, as many as are there.
  function r.part(octets, part_name)
    local start, size = math.min(r.at, r.length), math.min(octets, r.left())
    r.at = r.at + octets
    last = start + size
    return reader(size > 0 and there(start, size) or nil, tree, whose, part_name, octets, 0)
  end

  -- Nothing behind this can be read.
  function r.give_up(why)
    given_up = true
    tree:add_proto_expert_info(bad[whose], name .. ": " .. why)
  end

  function r.done()
    local expected = claimed - header > r.length and claimed - header or r.at
    if not given_up and expected ~= r.length then
      local why = string.format("%s: expected %d octets, found %d", name, header + expected, header + r.length)
      tree:add_proto_expert_info(bad[whose], why)
    end
    if last < r.length then tree:add(rests[whose], there(last, r.length - last)) end
  end

  return r
end

-- What is behind the first `at` octets; nil for nothing.
local function rest(body, at)
  if at < body:len() then return body(at, body:len() - at) end
end

-- Walks objects whose lengths are words, as GIST, QoS NSLP and QSPEC have them. `heads` are the fields of their headers: each
-- with place and length; `is_open` if objects of unknown type are allowed. `show` gets number, a reader of the value, and a tree. An object that leads past the end is the last
-- one.
local function objects(list, tree, whose, names, heads, show)
  local at = 0
  while list and at < list:len() do
    local left = list:len() - at
    local number = left >= 2 and list(at, 2):bitfield(4, 12) or nil
    local claimed = 4 + (left >= 4 and 4 * list(at + 2, 2):bitfield(4, 12) or 0)
    local there = math.min(claimed, left)
    local name = number and (names[number] or ("unknown object " .. number)) or "object header"
    local one = tree:add(list(at, there), name)
    for _, head in ipairs(heads) do
      if head[2] + head[3] <= left then one:add(head[1], list(at + head[2], head[3])) end
    end
    if number and not names[number] and not heads.is_open and list(at, 1):bitfield(0, 2) == 0 then
      one:add_proto_expert_info(bad[whose], name .. ": nodes that do not know it refuse the message")
    end
    local value = reader(there > 4 and list(at + 4, there - 4) or nil, one, whose, name, claimed, 4)
    if left < 4 then
      value = reader(list(at, left), one, whose, name, 4, 0)
    else
      show(number, value, one)
    end
    value.done()
    at = at + there
  end
end

-- An address of IP version `version`; whether there is such a version.
local function address(r, version, v4, v6)
  if version ~= 4 and version ~= 6 then
    r.give_up("unknown IP version " .. version)
    return false
  end
  return true, version == 4 and r.add(v4, 4) or version == 6 and r.add(v6, 16)
end

-- A prefix length of 0 makes an address meaningless.
local function check_prefix(r, length, range, whose)
  if not length or not range or length:uint() ~= 0 then return end
  if range:bytes():tohex():find("[^0]") then
    r.tree:add_proto_expert_info(odd[r.whose], "the prefix length of the " .. whose .. " is 0: any address")
  end
end

local function mri(r)
  local first = r.add(g.method, 1)
  r.skip(1)
  local bits = r.take(2)
  if not bits then return end
  local method, version = first:uint(), bits:bitfield(0, 4)
  if not METHODS[method] then return r.give_up("unknown routing method " .. method) end
  -- Which bit says upstream.
  r.tree:add(g.direction, bits, bits:bitfield(method == 0 and 10 or 4, 1))
  local known, source = address(r, version, g.source4, g.source6)
  if not known then return end
  local _, destination = address(r, version, g.destination4, g.destination6)
  if method ~= 0 then return end
  local function flag(place) return bits:bitfield(place, 1) == 1 end
  check_prefix(r, r.add(g.source_prefix, 1), source, "source")
  check_prefix(r, r.add(g.destination_prefix, 1), destination, "destination")
  local protocol, dscp = r.take(1), r.take(1)
  if protocol and flag(4) then r.tree:add(g.protocol, protocol) end
  if dscp and flag(5) then r.tree:add(g.dscp, dscp) end
  if flag(6) then r.add(g.flow_label, 4) end
  if flag(7) then r.add(g.spi, 4) end
  if flag(8) or flag(9) then
    local source_port, destination_port = r.take(2), r.take(2)
    if source_port and flag(8) then r.tree:add(g.source_port, source_port) end
    if destination_port and flag(9) then r.tree:add(g.destination_port, destination_port) end
  end
end

local function nli(r)
  local count = r.take(1)
  r.add(g.ip_ttl, 1)
  local version = r.take(1)
  r.skip(1)
  if not version then return end
  local length = count:uint()
  r.add(g.validity, 4)
  r.add(g.identity, length)
  r.skip(padded(length) - length)
  address(r, version:bitfield(0, 4), g.interface4, g.interface6)
end

local function proposal(r)
  local head = r.take(4)
  for _ = 1, head and head(0, 1):uint() or 0 do
    local count = r.take(1)
    if not count then return end
    local layers = count:uint()
    local is_whole = layers <= r.left()
    local profile = is_whole and layers > 0 and r.tree:add(g.profile, r.peek(layers)) or r.tree
    for _ = 1, layers do r.add(g.layer, 1, profile) end
    r.skip(padded(1 + layers) - 1 - layers)
  end
end

local function configuration(r)
  local head = r.take(4)
  if not head then return end
  r.add(g.hold_time, 4)
  for _ = 1, head(0, 1):uint() do
    local protocol = r.take(1)
    if not protocol then return end
    local option = r.tree:add(g.option, protocol)
    r.add(g.option_profile, 1, option)
    local count = r.take(1)
    if not r.add(g.unusable, 1, option) then return end
    local length = count:uint()
    local data = r.take(length)
    if data and protocol:uint() == 1 and length >= 2 then
      option:add(g.tcp_port, data(0, 2))
    elseif data then
      option:add(g.data, data)
    end
    r.skip(padded(length) - length)
  end
end

local function nat_traversal(r)
  local head = r.take(4)
  if not head then return end
  local part = r.part(4 * head(0, 1):uint(), OBJECTS[0])
  mri(part)
  part.done()
  local types = head(1, 1):uint()
  for _ = 1, types do r.add(g.translated, 2) end
  r.skip(padded(2 * types) - 2 * types)
  for _ = 1, head(2, 1):uint() do
    local length = r.take(2)
    if not length then return end
    r.add(g.opaque, length:uint())
    r.skip(padded(2 + length:uint()) - 2 - length:uint())
  end
end

local function report(r)
  r.add(g.error_class, 1)
  r.add(g.error, 2)
  r.add(g.subcode, 1)
  local flags = r.add(g.error_flags, 1)
  r.skip(1)
  local words, infos = r.take(1), r.take(1)
  if not infos then return end
  r.add(g.original, 8)
  local function flag(place) return flags:bitfield(place, 1) == 1 end
  if flag(0) then r.add(g.session, 16) end
  if flag(1) then
    local part = r.part(4 * words:uint(), OBJECTS[0])
    mri(part)
    part.done()
  end
  for _ = 1, infos:uint() do
    local kind, size = r.take(2), r.take(2)
    if not kind then return end
    local info = r.tree:add(g.info, kind)
    local value = size and r.take(4 * size:uint())
    if value then info:add(g.info_value, value(0, 2)) end
  end
  local text = flag(2) and r.left() > 0 and r.take(r.left())
  if text then r.tree:add(g.comment, text, text:stringz()) end
end

local function cookie(r) r.remaining(g.cookie) end

local readers = {
  [0] = mri, [2] = nli, [3] = proposal, [4] = configuration, [7] = nat_traversal, [9] = report,
  [1] = function(r) r.add(g.session, 16) end, [5] = cookie, [6] = cookie,
  [10] = function(r) r.add(g.hello, 4) end,
}

local HEADS = { { g.treatment, 0, 2 }, { g.object, 0, 2 }, { g.object_words, 2, 2 } }

-- A message, which begins with the common header. `buffer` is nil where nothing is behind the magic number.
local function message(buffer, pinfo, tree, root)
  pinfo.cols.protocol = "GIST"
  local there = buffer and buffer:len() or 0
  local r = reader(buffer and buffer(0, math.min(8, there)), tree, "gist", "common header", 8, 0)
  local version = r.add(g.version, 1)
  r.add(g.hops, 1)
  local words = r.add(g.words, 2)
  local nslpid, kind, flags = r.add(g.nslpid, 2), r.take(1), r.take(1)
  local name = kind and (TYPES[kind:bitfield(1, 7)] or "unknown message") or "truncated message"
  tree:append_text(", " .. name)
  pinfo.cols.info:set("GIST " .. name)
  if kind then
    tree:add(g.context_free, kind)
    tree:add(g.type, kind)
  end
  if flags then
    for _, field in ipairs({ g.source, g.reply, g.explicit }) do tree:add(field, flags) end
  end
  r.done()
  if not flags then return end
  if version:uint() ~= 1 then
    tree:add_proto_expert_info(bad.gist, "version " .. version:uint() .. " instead of 1")
  end
  local length = 8 + 4 * words:uint()
  if length ~= there then
    tree:add_proto_expert_info(bad.gist, string.format("message: expected %d octets, found %d", length, there))
  end
  local data = nil
  objects(rest(buffer(), 8), tree, "gist", OBJECTS, HEADS, function(number, value)
    if readers[number] then
      readers[number](value)
    elseif number == 8 and value.left() > 0 then
      data = value.take(value.left())
    else
      value.remaining(g.data)
    end
  end)
  if data and nslps:get_dissector(nslpid:uint()) then
    nslps:try(nslpid:uint(), data:tvb(), pinfo, root)
  elseif data then
    tree:add(g.data, data)
  end
end

function gist.dissector(buffer, pinfo, root)
  if buffer:len() < 4 or buffer(0, 4):uint() ~= MAGIC then return 0 end
  local tree = root:add(gist, buffer())
  message(buffer:len() > 4 and buffer(4, buffer:len() - 4):tvb() or nil, pinfo, tree, root)
  return buffer:len()
end

-- In a stream, one message after the other.
local stream = Proto("gist_stream", "GIST over TCP")
function stream.dissector(buffer, pinfo, root)
  dissect_tcp_pdus(buffer, root, 8, function(tvb, _, offset)
    return 8 + 4 * tvb(offset + 2, 2):uint()
  end, function(tvb, packet, tree)
    message(tvb, packet, tree:add(gist, tvb()), tree)
    return tvb:len()
  end)
  return buffer:len()
end

-- QSPEC ----------------------------------------------------------------------------------------------------------------

local QSPEC_OBJECTS = { [0] = "QoS Desired", [1] = "QoS Available", [2] = "QoS Reserved", [3] = "Minimum QoS" }
local PARAMETERS = {
  [1] = "TMOD-1", [2] = "TMOD-2", [3] = "Path Latency", [4] = "Path Jitter", [5] = "Path PLR", [6] = "Path PER",
  [7] = "Slack Term", [8] = "Preemption Priority and Defending Priority", [9] = "Admission Priority",
  [10] = "RPH Priority", [11] = "Excess Treatment", [12] = "PHB Class", [13] = "DSTE Class Type",
  [14] = "Y.1541 QoS Class",
}
local MODELS = { [0] = "default", [1] = "Y.1541-QOSM", [2] = "RMD-QOSM" }
local SEQUENCES = {
  [0] = "sender-initiated reservation", [1] = "receiver-initiated reservation", [2] = "resource query",
}
local EXCESS = { [0] = "drop", [1] = "shape", [2] = "re-mark", [3] = "no policing" }

local s = qspec.fields
s.version = ProtoField.uint8("qspec.version", "Version", base.DEC, nil, 0xf0)
s.is_local = ProtoField.bool("qspec.local", "I: local", 8, nil, 0x08)
s.model = ProtoField.uint8("qspec.type", "QoS model", base.DEC, MODELS)
s.sequence = ProtoField.uint8("qspec.message_sequence", "Message sequence", base.DEC, SEQUENCES)
s.combination = ProtoField.uint8("qspec.object_combination", "Object combination")
s.object = ProtoField.uint16("qspec.object", "Object", base.DEC, QSPEC_OBJECTS, 0x0fff)
s.object_error = ProtoField.bool("qspec.object.error", "E: a parameter failed", 8, nil, 0x80)
s.parameter = ProtoField.uint16("qspec.parameter", "Parameter", base.DEC, PARAMETERS, 0x0fff)
s.mandatory = ProtoField.bool("qspec.parameter.mandatory", "M: mandatory", 8, nil, 0x80)
s.failed = ProtoField.bool("qspec.parameter.error", "E: not met, or wrong", 8, nil, 0x40)
s.not_supported = ProtoField.bool("qspec.parameter.not_supported", "N: not known on the way", 8, nil, 0x20)
s.rate = ProtoField.float("qspec.tmod.rate", "Token rate r (octets/s)")
s.depth = ProtoField.float("qspec.tmod.depth", "Bucket depth b (octets)")
s.peak = ProtoField.float("qspec.tmod.peak", "Peak rate p (octets/s)")
s.policed = ProtoField.uint32("qspec.tmod.min_policed_unit", "Minimum policed unit m (octets)")
s.packet = ProtoField.uint32("qspec.tmod.max_packet_size", "Maximum packet size (octets)")
s.micros = ProtoField.uint32("qspec.microseconds", "Microseconds")
s.ratio = ProtoField.float("qspec.ratio", "Ratio")
s.preemption = ProtoField.uint16("qspec.priority.preemption", "Preemption priority")
s.defending = ProtoField.uint16("qspec.priority.defending", "Defending priority")
s.admission = ProtoField.uint8("qspec.priority.admission", "Admission priority (Y.2171)")
s.admission_local = ProtoField.uint8("qspec.priority.local", "Admission priority (local)")
s.namespace = ProtoField.uint16("qspec.priority.namespace", "RPH namespace")
s.rph = ProtoField.uint8("qspec.priority.rph", "RPH priority")
s.excess = ProtoField.uint8("qspec.excess", "Excess treatment", base.DEC, EXCESS)
s.phb = ProtoField.uint16("qspec.phb", "PHB field", base.HEX)
s.class = ProtoField.uint8("qspec.class", "Class")
s.data = ProtoField.bytes("qspec.data", "Data")

local function tmod(r)
  for _, field in ipairs({ s.rate, s.depth, s.peak, s.policed, s.packet }) do r.add(field, 4) end
end

-- A parameter of some fields: field (nil for octets without meaning), length, and so on.
local function plain(...)
  local parts = { n = select("#", ...), ... }
  return function(r)
    for part = 1, parts.n, 2 do
      if parts[part] then r.add(parts[part], parts[part + 1]) else r.skip(parts[part + 1]) end
    end
  end
end

local parameters = {
  [1] = tmod, [2] = tmod, [3] = plain(s.micros, 4),
  [4] = plain(s.micros, 4, s.micros, 4, s.micros, 4, nil, 4),
  [5] = plain(s.ratio, 4), [6] = plain(s.ratio, 4), [7] = plain(s.micros, 4),
  [8] = plain(s.preemption, 2, s.defending, 2),
  [9] = plain(s.admission, 1, s.admission_local, 1, nil, 2),
  [10] = plain(s.namespace, 2, s.rph, 1, nil, 1),
  [11] = plain(s.excess, 1, nil, 3), [12] = plain(s.phb, 2, nil, 2), [13] = plain(s.class, 1, nil, 3),
  [14] = plain(s.class, 1, nil, 3),
}

local QSPEC_HEADS = { { s.object_error, 0, 1 }, { s.object, 0, 2 } }
local PARAMETER_HEADS = {
  { s.mandatory, 0, 1 }, { s.failed, 0, 1 }, { s.not_supported, 0, 1 }, { s.parameter, 0, 2 }, is_open = true,
}

-- A QSPEC; inside a local one, that of the whole path may follow.
local function show_qspec(value)
  -- At least a header.
  if value.left() == 0 then return value.skip(4) end
  local body, root = value.take(value.left()), value.tree
  while body do
    local tree = root:add(qspec, body)
    local there = body:len()
    tree:add(s.version, body(0, 1))
    tree:add(s.is_local, body(0, 1))
    if there >= 2 then tree:add(s.model, body(0, 2), body(0, 2):bitfield(5, 5)) end
    if there >= 3 then
      tree:add(s.sequence, body(1, 2), body(1, 2):bitfield(4, 4))
      tree:add(s.combination, body(2, 1), body(2, 1):bitfield(0, 4))
    end
    if there < 4 then return reader(body, tree, "qspec", "QSPEC header", 4, 0).done() end
    local length = 4 + 4 * body(2, 2):bitfield(4, 12)
    local is_local = body(0, 1):bitfield(4, 1) == 1
    if length > body:len() or length == 4 or not is_local and length < body:len() then
      local why = string.format("QSPEC: expected %d octets, found %d", length, body:len())
      tree:add_proto_expert_info(bad.qspec, length == 4 and "QSPEC without objects" or why)
    end
    there = math.min(length, there)
    local list = there > 4 and body(4, there - 4) or nil
    objects(list, tree, "qspec", QSPEC_OBJECTS, QSPEC_HEADS, function(number, inner, object)
      if not QSPEC_OBJECTS[number] then return inner.remaining(s.data) end
      local octets = inner.left() > 0 and inner.take(inner.left()) or nil
      objects(octets, object, "qspec", PARAMETERS, PARAMETER_HEADS, function(id, one)
        if parameters[id] then parameters[id](one) else one.remaining(s.data) end
      end)
    end)
    body, root = rest(body, there), tree
    if body and not is_local then
      tree:add(rests.qspec, body)
      return
    end
  end
end

-- QoS NSLP -------------------------------------------------------------------------------------------------------------

local QOS_TYPES = { [1] = "RESERVE", [2] = "QUERY", [3] = "RESPONSE", [4] = "NOTIFY" }
local QOS_OBJECTS = {
  [1] = "RII", [2] = "RSN", [3] = "REFRESH-PERIOD", [4] = "BOUND-SESSION-ID", [5] = "PACKET-CLASSIFIER",
  [6] = "INFO-SPEC", [7] = "SESSION-ID-LIST", [8] = "RSN-LIST", [9] = "MSG-ID", [10] = "BOUND-MSG-ID", [11] = "QSPEC",
  [22] = "SESSION_AUTH",
}
local BINDINGS = {
  [1] = "tunnel and end-to-end sessions", [2] = "bidirectional sessions", [3] = "aggregate sessions",
  [4] = "dependent sessions", [5] = "indicated session caused preemption",
}
local QOS_CLASSES = {
  [1] = "informational", [2] = "success", [3] = "protocol error", [4] = "transient failure",
  [5] = "permanent failure", [6] = "QoS model error", [7] = "signaling session failure",
}

local q = qos.fields
q.type = ProtoField.uint8("qosnslp.type", "Message", base.DEC, QOS_TYPES)
q.flags = ProtoField.uint8("qosnslp.flags", "Message flags", base.HEX)
q.tear = ProtoField.bool("qosnslp.flags.tear", "T: tear", 8, nil, 0x02)
q.replace = ProtoField.bool("qosnslp.flags.replace", "R: replace", 8, nil, 0x01)
q.reserve_init = ProtoField.bool("qosnslp.flags.reserve_init", "R: a RESERVE is wanted", 8, nil, 0x01)
q.breaks = ProtoField.bool("qosnslp.flags.break", "B: break", 8, nil, 0x08)
q.ack = ProtoField.bool("qosnslp.flags.ack_req", "A: ACK-REQ", 8, nil, 0x04)
q.proxy = ProtoField.bool("qosnslp.flags.proxy", "P: proxy", 8, nil, 0x02)
q.scoping = ProtoField.bool("qosnslp.flags.scoping", "S: scoping", 8, nil, 0x01)
q.object = ProtoField.uint16("qosnslp.object", "Object", base.DEC, QOS_OBJECTS, 0x0fff)
q.treatment = ProtoField.uint16("qosnslp.object.treatment", "If unknown", base.DEC, TREATMENTS, 0xc000)
q.rii = ProtoField.uint32("qosnslp.rii", "RII", base.HEX)
q.rsn = ProtoField.uint32("qosnslp.rsn", "RSN")
q.epoch = ProtoField.uint32("qosnslp.epoch", "Epoch", base.HEX)
q.refresh = ProtoField.uint32("qosnslp.refresh_period", "Refresh period (ms)")
q.binding = ProtoField.uint8("qosnslp.binding", "Binding", base.DEC, BINDINGS)
q.session = ProtoField.bytes("qosnslp.session", "Session")
q.classifier = ProtoField.uint8("qosnslp.classifier", "Fields (X, Y, P, T, F, S, A, B)", base.HEX)
q.class = ProtoField.uint8("qosnslp.info.class", "Class", base.DEC, QOS_CLASSES)
q.code = ProtoField.uint8("qosnslp.info.code", "Code")
q.source4 = ProtoField.ipv4("qosnslp.info.source", "Told by")
q.source6 = ProtoField.ipv6("qosnslp.info.source6", "Told by")
q.source_name = ProtoField.string("qosnslp.info.source_name", "Told by")
q.both = ProtoField.bool("qosnslp.message_id.both", "D: each waits for the other", 8, nil, 0x01)
q.message_id = ProtoField.bytes("qosnslp.message_id", "Message id")
q.data = ProtoField.bytes("qosnslp.data", "Data")

local function info_spec(r)
  r.skip(1)
  r.add(q.code, 1)
  local class, words = r.take(1), r.take(1)
  if class then r.tree:add(q.class, class, class:bitfield(0, 4)) end
  if not words then return end
  local kind, length = class:bitfield(4, 4), 4 * words:uint()
  local source = r.take(length)
  if source and kind == 1 and length == 4 then
    r.tree:add(q.source4, source)
  elseif source and kind == 2 and length == 16 then
    r.tree:add(q.source6, source)
  elseif source and kind == 3 then
    r.tree:add(q.source_name, source, source:stringz())
  elseif source then
    r.tree:add(q.data, source)
  end
  r.remaining(q.data)
end

local function word_and_id(r)
  r.skip(3)
  r.add(q.both, 1)
  r.add(q.message_id, 16)
end

-- SESSION_AUTH (RFC 5981): attributes, whose length counts their header and not their padding.
local function session_auth(data)
  return function(r)
    while r.left() > 0 do
      local head = r.take(4)
      if not head then return end
      local length = head(0, 2):uint()
      if length < 4 then return r.give_up("length " .. length .. " of an attribute is below 4") end
      r.add(data, length - 4)
      r.skip(padded(length) - length)
    end
  end
end

local qos_readers = {
  [1] = function(r) r.add(q.rii, 4) end,
  [2] = function(r)
    r.add(q.rsn, 4)
    r.add(q.epoch, 4)
  end,
  [3] = function(r) r.add(q.refresh, 4) end,
  [4] = function(r)
    r.skip(3)
    r.add(q.binding, 1)
    r.add(q.session, 16)
  end,
  [5] = function(r)
    r.add(q.classifier, 1)
    r.skip(3)
  end,
  [6] = info_spec,
  [7] = function(r) r.list(q.session, 16) end,
  [8] = function(r)
    r.add(q.epoch, 4)
    r.list(q.rsn, 4)
  end,
  [9] = word_and_id, [10] = word_and_id, [11] = show_qspec, [22] = session_auth(q.data),
}

-- The header of a message of an NSLP as far as it is there; gives its reader.
local function nslp_header(buffer, tree, whose)
  return reader(buffer(0, math.min(4, buffer:len())), tree, whose, "header", 4, 0)
end

local QOS_HEADS = { { q.treatment, 0, 2 }, { q.object, 0, 2 } }

function qos.dissector(buffer, pinfo, root)
  local tree = root:add(qos, buffer())
  local r = nslp_header(buffer, tree, "qosnslp")
  local kind = r.add(q.type, 1):uint()
  local name = QOS_TYPES[kind] or "unknown message"
  tree:append_text(", " .. name)
  pinfo.cols.info:append(", " .. name)
  local flags = r.add(q.flags, 1)
  if flags and kind == 1 then
    tree:add(q.tear, flags)
    tree:add(q.replace, flags)
  elseif flags and kind == 2 then
    tree:add(q.reserve_init, flags)
  end
  r.skip(1)
  local generic = r.take(1)
  for _, field in ipairs({ q.breaks, q.ack, q.proxy, q.scoping }) do
    if generic then tree:add(field, generic) end
  end
  if not QOS_TYPES[kind] then tree:add_proto_expert_info(bad.qosnslp, "unknown message type " .. kind) end
  r.done()
  objects(rest(buffer(), 4), tree, "qosnslp", QOS_OBJECTS, QOS_HEADS, function(number, value)
    if qos_readers[number] then qos_readers[number](value) else value.remaining(q.data) end
  end)
  return buffer:len()
end

-- NATFW NSLP -----------------------------------------------------------------------------------------------------------

local NATFW_TYPES = { [1] = "CREATE", [2] = "EXTERNAL", [3] = "RESPONSE", [4] = "NOTIFY" }
local NATFW_OBJECTS = {
  [12] = "NATFW_LT", [13] = "NATFW_EXTERNAL_IP", [14] = "NATFW_EXTERNAL_BINDING", [15] = "NATFW_EFI", [16] = "NATFW_INFO",
  [17] = "NATFW_NONCE", [18] = "NATFW_MSN", [19] = "NATFW_DTINFO", [20] = "NATFW_ICMP_TYPES", [22] = "SESSION_AUTH",
}
local NATFW_CLASSES = {
  [1] = "informational", [2] = "success", [3] = "protocol error", [4] = "transient failure",
  [5] = "permanent failure", [7] = "signaling session failure",
}
local RULE_ACTIONS = { [1] = "allow", [2] = "deny" }

local n = natfw.fields
n.type = ProtoField.uint8("natfwnslp.type", "Message", base.DEC, NATFW_TYPES)
n.proxy = ProtoField.bool("natfwnslp.flags.proxy", "P: proxy mode", 8, nil, 0x80)
n.end_to_end = ProtoField.bool("natfwnslp.flags.end_to_end", "E: the edge continues to send", 8, nil, 0x40)
n.object = ProtoField.uint16("natfwnslp.object", "Object", base.DEC, NATFW_OBJECTS, 0x0fff)
n.treatment = ProtoField.uint16("natfwnslp.object.treatment", "If unknown", base.DEC, TREATMENTS, 0xc000)
n.lifetime = ProtoField.uint32("natfwnslp.lifetime", "Lifetime (s)")
n.port = ProtoField.uint16("natfwnslp.port", "Port")
n.ip_version = ProtoField.uint8("natfwnslp.ip_version", "IP version", base.DEC, nil, 0xf0)
n.address = ProtoField.ipv4("natfwnslp.address", "Address")
n.action = ProtoField.uint16("natfwnslp.action", "Rule action", base.DEC, RULE_ACTIONS)
n.sub_ports = ProtoField.uint16("natfwnslp.sub_ports", "sub_ports")
n.class = ProtoField.uint8("natfwnslp.info.class", "Class", base.DEC, NATFW_CLASSES, 0x0f)
n.code = ProtoField.uint8("natfwnslp.info.code", "Response code")
n.info_object = ProtoField.uint16("natfwnslp.info.object", "Object concerned", base.DEC, NATFW_OBJECTS, 0x0fff)
n.nonce = ProtoField.uint32("natfwnslp.nonce", "Nonce", base.HEX)
n.msn = ProtoField.uint32("natfwnslp.msn", "Message sequence number")
n.has_protocol = ProtoField.bool("natfwnslp.dtinfo.i", "I: the protocol counts", 8, nil, 0x80)
n.has_ports = ProtoField.bool("natfwnslp.dtinfo.p", "P: ports are present", 8, nil, 0x40)
n.has_spi = ProtoField.bool("natfwnslp.dtinfo.s", "S: an SPI is present", 8, nil, 0x20)
n.sender_prefix = ProtoField.uint8("natfwnslp.dtinfo.sender_prefix", "Sender prefix")
n.protocol = ProtoField.uint8("natfwnslp.dtinfo.protocol", "Protocol")
n.destination_port = ProtoField.uint16("natfwnslp.dtinfo.destination_port", "DR port")
n.source_port = ProtoField.uint16("natfwnslp.dtinfo.source_port", "DS port")
n.spi = ProtoField.uint32("natfwnslp.dtinfo.spi", "IPsec SPI", base.HEX)
n.sender = ProtoField.ipv4("natfwnslp.dtinfo.sender", "Data sender")
n.icmp_type = ProtoField.uint8("natfwnslp.icmp_type", "ICMP type")
n.data = ProtoField.bytes("natfwnslp.data", "Data")

-- A value of one word.
local function natfw_word(field)
  return function(r) r.add(field, 4) end
end

-- A port and the addresses behind it, which have a form for IPv4 only.
local function natfw_addresses(is_one)
  return function(r)
    r.add(n.port, 2)
    local version = r.add(n.ip_version, 1)
    r.skip(1)
    if version and version:bitfield(0, 4) ~= 4 then return r.give_up("the IP version is not 4") end
    if is_one then r.add(n.address, 4) else r.list(n.address, 4) end
  end
end

local natfw_readers = {
  [12] = natfw_word(n.lifetime), [13] = natfw_addresses(true), [14] = natfw_addresses(false),
  [15] = function(r)
    r.add(n.action, 2)
    r.add(n.sub_ports, 2)
  end,
  [16] = function(r)
    r.add(n.class, 1)
    r.add(n.code, 1)
    r.add(n.info_object, 2)
  end,
  [17] = natfw_word(n.nonce), [18] = natfw_word(n.msn),
  [19] = function(r)
    local head = r.take(1)
    if not head then return end
    for _, field in ipairs({ n.has_protocol, n.has_ports, n.has_spi }) do r.tree:add(field, head) end
    r.skip(1)
    local prefix = r.add(n.sender_prefix, 1)
    r.add(n.protocol, 1)
    local flags = head:uint()
    local ports, spi = flags % 128 >= 64, flags % 64 >= 32
    if ports and spi or (ports or spi) and flags < 128 then
      r.tree:add_proto_expert_info(bad.natfwnslp, "the flags contradict each other")
    end
    if ports then
      r.add(n.destination_port, 2)
      r.add(n.source_port, 2)
    end
    if spi then r.add(n.spi, 4) end
    check_prefix(r, prefix, r.add(n.sender, 4), "data sender")
  end,
  [20] = function(r)
    local count = r.take(1)
    if not count then return end
    for _ = 1, count:uint() do
      if not r.add(n.icmp_type, 1) then break end
    end
    r.at = 1 + count:uint()
    r.skip(padded(1 + count:uint()) - 1 - count:uint())
  end,
  [22] = session_auth(n.data),
}

local NATFW_HEADS = { { n.treatment, 0, 2 }, { n.object, 0, 2 } }

function natfw.dissector(buffer, pinfo, root)
  local tree = root:add(natfw, buffer())
  local r = nslp_header(buffer, tree, "natfwnslp")
  local kind = r.add(n.type, 1):uint()
  local name = NATFW_TYPES[kind] or "unknown message"
  tree:append_text(", " .. name)
  pinfo.cols.info:append(", " .. name)
  local flags = r.take(1)
  if flags and kind <= 2 then
    tree:add(n.proxy, flags)
    tree:add(n.end_to_end, flags)
  end
  r.skip(2)
  if not NATFW_TYPES[kind] then tree:add_proto_expert_info(bad.natfwnslp, "unknown message type " .. kind) end
  r.done()
  objects(rest(buffer(), 4), tree, "natfwnslp", NATFW_OBJECTS, NATFW_HEADS, function(number, value)
    if natfw_readers[number] then natfw_readers[number](value) else value.remaining(n.data) end
  end)
  return buffer:len()
end

-- Ping NSLP ------------------------------------------------------------------------------------------------------------

local PING_OBJECTS = { [1] = "IP address", [2] = "timestamp", [0xff01] = "available bandwidth" }

local p = ping.fields
p.version = ProtoField.uint8("pingnslp.version", "Version")
p.hops = ProtoField.uint8("pingnslp.hops", "Hops")
p.length = ProtoField.uint16("pingnslp.length", "Length")
p.count = ProtoField.uint8("pingnslp.objects", "Objects")
p.sequence = ProtoField.uint32("pingnslp.sequence", "Sequence number")
p.object = ProtoField.uint16("pingnslp.object", "Object", base.DEC, PING_OBJECTS)
p.octets = ProtoField.uint16("pingnslp.object.length", "Octets")
p.address = ProtoField.ipv6("pingnslp.address", "Address")
p.seconds = ProtoField.uint32("pingnslp.seconds", "Seconds")
p.microseconds = ProtoField.uint32("pingnslp.microseconds", "Microseconds")
p.available = ProtoField.uint64("pingnslp.available", "Available bandwidth (bit/s)")
p.data = ProtoField.bytes("pingnslp.data", "Data")

-- The record of a node: the listed objects, one after the other.
local function record(r, tree, wanted)
  for _, object in ipairs(wanted) do
    local kind, length = object[1], object[2]
    local range = r.take(length)
    if kind == 2 and length == 8 and not range and r.at - 4 <= r.length then
      -- The first half is there.
      r.at = r.at - 8
      r.add(p.seconds, 4, tree)
      r.skip(4)
    elseif range and kind == 1 and length == 16 then
      tree:add(p.address, range)
    elseif range and kind == 2 and length == 8 then
      tree:add(p.seconds, range(0, 4))
      tree:add(p.microseconds, range(4, 4))
    elseif range and kind == 0xff01 and length == 8 then
      -- The first bit tells that the node knows the value.
      if range(0, 1):bitfield(0, 1) == 1 then tree:add(p.available, range, range:bitfield(1, 63)) end
    elseif range then
      tree:add(p.data, range)
    end
  end
end

function ping.dissector(buffer, pinfo, root)
  local tree = root:add(ping, buffer())
  pinfo.cols.info:append(", Ping NSLP")
  local version, there = buffer(0, 1):uint(), buffer:len()
  local wide = version == 2 and 2 or 1
  local length = there >= 2 + wide and (version == 1 or version == 2) and buffer(2, wide):uint() or there
  -- Up to three octets of padding may follow.
  local size = length <= there and there - length < 4 and length or there
  local r = reader(size > 0 and buffer(0, size) or nil, tree, "pingnslp", "message", length, 0)
  if size == there and length < there then
    tree:add_proto_expert_info(bad.pingnslp, string.format("message: expected %d octets, found %d", length, there))
  end
  r.add(p.version, 1)
  r.add(p.hops, 1)
  if version ~= 1 and version ~= 2 then
    r.give_up("neither version 1 nor version 2")
    return r.done()
  end
  r.add(p.length, wide)
  local count = r.add(p.count, 1)
  if version == 2 then r.skip(3) end
  r.add(p.sequence, 4)
  local wanted, octets = {}, 0
  for number = 1, count and count:uint() or 0 do
    local kind = r.take(2)
    if not kind then break end
    local size = r.add(p.octets, 2, tree:add(p.object, kind))
    if not size then break end
    wanted[number] = { kind:uint(), size:uint() }
    octets = octets + size:uint()
  end
  while octets > 0 and r.left() > 0 do
    record(r, tree:add(buffer(r.at, math.min(octets, r.left())), "Record"), wanted)
  end
  r.done()
  return there
end

-- ----------------------------------------------------------------------------------------------------------------------

DissectorTable.get("udp.port"):add(270, gist)
for nslpid = 1, 32 do nslps:add(nslpid, qos) end
nslps:add(33, natfw)
nslps:add(32704, ping)

-- The port of associations, which the preference may change after this was read.
local tcp, current = DissectorTable.get("tcp.port"), 0
function gist.init()
  local wanted = gist.prefs.tcp_port
  if wanted == current then return end
  if current ~= 0 then tcp:remove(current, stream) end
  if wanted ~= 0 then tcp:add(wanted, stream) end
  current = wanted
end
