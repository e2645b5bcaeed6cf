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
g.data = ProtoField.bytes("gist.data", "Data")

local bad = {}
for name, proto in pairs({ gist = gist, qosnslp = qos, qspec = qspec, natfwnslp = natfw, pingnslp = ping }) do
  bad[name] = ProtoExpert.new(name .. ".malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
  proto.experts = { bad[name] }
end

local nslps = DissectorTable.new("gist.nslpid", "NSLPID of GIST", ftypes.UINT16, base.DEC, gist)

-- Whether `body`, which may be nil, has so many octets; complains where not.
local function has(body, octets, tree, whose)
  if octets == 0 or body and body:len() >= octets then return true end
  tree:add_proto_expert_info(bad[whose], "the value is too short")
  return false
end

-- What is behind the first `at` octets; nil for nothing.
local function rest(body, at)
  if at < body:len() then return body(at, body:len() - at) end
end

local function padded(octets) return math.floor((octets + 3) / 4) * 4 end

-- Walks objects whose lengths are words, as GIST, QoS NSLP and QSPEC have them. `show` gets number, body (nil where it is
-- empty), a tree and what the object's header is.
local function objects(list, tree, whose, names, show)
  local at = 0
  while list and at < list:len() do
    if at + 4 > list:len() or at + 4 + 4 * list(at + 2, 2):bitfield(4, 12) > list:len() then
      tree:add_proto_expert_info(bad[whose], "an object's length leads astray")
      return
    end
    local number, length = list(at, 2):bitfield(4, 12), 4 * list(at + 2, 2):bitfield(4, 12)
    local one = tree:add(list(at, 4 + length), names[number] or ("unknown object " .. number))
    local body = length > 0 and list(at + 4, length) or nil
    show(number, body, one, list(at, 4))
    at = at + 4 + length
  end
end

-- An address of IP version `version`; its length, or nil where it is not there.
local function address(body, at, version, tree, v4, v6)
  local length = version == 4 and 4 or version == 6 and 16 or nil
  if not length or not has(body, at + length, tree, "gist") then return nil end
  tree:add(length == 4 and v4 or v6, body(at, length))
  return length
end

local function mri(body, tree)
  if not has(body, 4, tree, "gist") then return end
  local method, version = body(0, 1):uint(), body(2, 1):bitfield(0, 4)
  tree:add(g.method, body(0, 1))
  -- Where addresses begin, and which bit says upstream.
  local direction = method == 0 and 10 or 4
  tree:add(g.direction, body(2, 2), body(2, 2):bitfield(direction, 1))
  local length = address(body, 4, version, tree, g.source4, g.source6)
  if not length or not address(body, 4 + length, version, tree, g.destination4, g.destination6) then return end
  if method ~= 0 then return end
  local function flag(place) return body(2, 2):bitfield(place, 1) == 1 end
  local at = 4 + 2 * length
  if not has(body, at + 4, tree, "gist") then return end
  tree:add(g.source_prefix, body(at, 1))
  tree:add(g.destination_prefix, body(at + 1, 1))
  if flag(4) then tree:add(g.protocol, body(at + 2, 1)) end
  if flag(5) then tree:add(g.dscp, body(at + 3, 1)) end
  at = at + 4
  local function word(present)
    if not present or not has(body, at + 4, tree, "gist") then return nil end
    at = at + 4
    return body(at - 4, 4)
  end
  local label, spi, ports = word(flag(6)), word(flag(7)), word(flag(8) or flag(9))
  if label then tree:add(g.flow_label, label) end
  if spi then tree:add(g.spi, spi) end
  if ports and flag(8) then tree:add(g.source_port, ports(0, 2)) end
  if ports and flag(9) then tree:add(g.destination_port, ports(2, 2)) end
end

local function nli(body, tree)
  if not has(body, 8, tree, "gist") then return end
  local length = body(0, 1):uint()
  tree:add(g.ip_ttl, body(1, 1))
  tree:add(g.validity, body(4, 4))
  if not has(body, 8 + padded(length), tree, "gist") then return end
  if length > 0 then tree:add(g.identity, body(8, length)) end
  address(body, 8 + padded(length), body(2, 1):bitfield(0, 4), tree, g.interface4, g.interface6)
end

local function proposal(body, tree)
  if not has(body, 4, tree, "gist") then return end
  local at = 4
  for _ = 1, body(0, 1):uint() do
    if not has(body, at + 1, tree, "gist") then return end
    local layers = body(at, 1):uint()
    if layers == 0 or not has(body, at + padded(1 + layers), tree, "gist") then return end
    local profile = tree:add(g.profile, body(at + 1, layers))
    for layer = 1, layers do profile:add(g.layer, body(at + layer, 1)) end
    at = at + padded(1 + layers)
  end
end

local function configuration(body, tree)
  if not has(body, 8, tree, "gist") then return end
  tree:add(g.hold_time, body(4, 4))
  local at = 8
  for _ = 1, body(0, 1):uint() do
    if not has(body, at + 4, tree, "gist") then return end
    local length = body(at + 2, 1):uint()
    if not has(body, at + 4 + padded(length), tree, "gist") then return end
    local option = tree:add(g.option, body(at, 1))
    option:add(g.option_profile, body(at + 1, 1))
    option:add(g.unusable, body(at + 3, 1))
    if body(at, 1):uint() == 1 and length >= 2 then
      option:add(g.tcp_port, body(at + 4, 2))
    elseif length > 0 then
      option:add(g.data, body(at + 4, length))
    end
    at = at + 4 + padded(length)
  end
end

local function report(body, tree)
  if not has(body, 16, tree, "gist") then return end
  tree:add(g.error_class, body(0, 1))
  tree:add(g.error, body(1, 2))
  tree:add(g.subcode, body(3, 1))
  tree:add(g.error_flags, body(4, 1))
  tree:add(g.original, body(8, 8))
  local function flag(place) return body(4, 1):bitfield(place, 1) == 1 end
  local at = 16
  if flag(0) then
    if not has(body, at + 16, tree, "gist") then return end
    tree:add(g.session, body(at, 16))
    at = at + 16
  end
  local length = 4 * body(6, 1):uint()
  if flag(1) then
    if length == 0 or not has(body, at + length, tree, "gist") then return end
    mri(body(at, length), tree)
    at = at + length
  end
  for _ = 1, body(7, 1):uint() do
    if not has(body, at + 4, tree, "gist") then return end
    length = 4 * body(at + 2, 2):uint()
    if not has(body, at + 4 + length, tree, "gist") then return end
    local info = tree:add(g.info, body(at, 2))
    if length >= 2 then info:add(g.info_value, body(at + 4, 2)) end
    at = at + 4 + length
  end
  local left = rest(body, at)
  if flag(2) and left then tree:add(g.comment, left, left:stringz()) end
end

local readers = {
  [0] = mri, [2] = nli, [3] = proposal, [4] = configuration, [9] = report,
  [1] = function(body, tree) if has(body, 16, tree, "gist") then tree:add(g.session, body(0, 16)) end end,
  [5] = function(body, tree) if has(body, 4, tree, "gist") then tree:add(g.cookie, body) end end,
  [6] = function(body, tree) if has(body, 4, tree, "gist") then tree:add(g.cookie, body) end end,
  [10] = function(body, tree) if has(body, 4, tree, "gist") then tree:add(g.hello, body(0, 4)) end end,
}

-- A whole message, which begins with the common header.
local function message(buffer, pinfo, root)
  local length = 8 + 4 * buffer(2, 2):uint()
  local tree = root:add(gist, buffer())
  tree:add(g.version, buffer(0, 1))
  tree:add(g.hops, buffer(1, 1))
  tree:add(g.words, buffer(2, 2))
  tree:add(g.nslpid, buffer(4, 2))
  tree:add(g.context_free, buffer(6, 1))
  tree:add(g.type, buffer(6, 1))
  tree:add(g.source, buffer(7, 1))
  tree:add(g.reply, buffer(7, 1))
  tree:add(g.explicit, buffer(7, 1))
  local name = TYPES[buffer(6, 1):bitfield(1, 7)] or "unknown message"
  tree:append_text(", " .. name)
  pinfo.cols.protocol = "GIST"
  pinfo.cols.info:set("GIST " .. name)
  if buffer(0, 1):uint() ~= 1 or length ~= buffer:len() then
    tree:add_proto_expert_info(bad.gist, "not version 1, or not the length of the message")
    return
  end
  local nslpid, data = buffer(4, 2):uint(), nil
  objects(rest(buffer(), 8), tree, "gist", OBJECTS, function(number, body, one, header)
    one:add(g.treatment, header(0, 2))
    one:add(g.object, header(0, 2))
    one:add(g.object_words, header(2, 2))
    if readers[number] then
      readers[number](body, one)
    elseif number == 8 and body then
      data = body
    elseif body then
      one:add(g.data, body)
    end
  end)
  if data and nslps:get_dissector(nslpid) then
    nslps:try(nslpid, data:tvb(), pinfo, root)
  elseif data then
    tree:add(g.data, data)
  end
end

function gist.dissector(buffer, pinfo, root)
  if buffer:len() < 12 or buffer(0, 4):uint() ~= MAGIC then return 0 end
  message(buffer(4, buffer:len() - 4):tvb(), pinfo, root)
  return buffer:len()
end

-- In a stream, one message after the other.
local stream = Proto("gist_stream", "GIST over TCP")
function stream.dissector(buffer, pinfo, root)
  dissect_tcp_pdus(buffer, root, 8, function(tvb, _, offset)
    return 8 + 4 * tvb(offset + 2, 2):uint()
  end, function(tvb, packet, tree)
    message(tvb, packet, tree)
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

local function tmod(body, tree)
  if not has(body, 20, tree, "qspec") then return end
  tree:add(s.rate, body(0, 4))
  tree:add(s.depth, body(4, 4))
  tree:add(s.peak, body(8, 4))
  tree:add(s.policed, body(12, 4))
  tree:add(s.packet, body(16, 4))
end

-- A parameter that is some fields at the beginning of its value: field, place, length, and so on.
local function plain(octets, ...)
  local parts = { ... }
  return function(body, tree)
    if not has(body, octets, tree, "qspec") then return end
    for part = 1, #parts, 3 do tree:add(parts[part], body(parts[part + 1], parts[part + 2])) end
  end
end

local parameters = {
  [1] = tmod, [2] = tmod, [3] = plain(4, s.micros, 0, 4),
  [4] = plain(16, s.micros, 0, 4, s.micros, 4, 4, s.micros, 8, 4),
  [5] = plain(4, s.ratio, 0, 4), [6] = plain(4, s.ratio, 0, 4), [7] = plain(4, s.micros, 0, 4),
  [8] = plain(4, s.preemption, 0, 2, s.defending, 2, 2),
  [9] = plain(4, s.admission, 0, 1, s.admission_local, 1, 1),
  [10] = plain(4, s.namespace, 0, 2, s.rph, 2, 1),
  [11] = plain(4, s.excess, 0, 1), [12] = plain(4, s.phb, 0, 2), [13] = plain(4, s.class, 0, 1),
  [14] = plain(4, s.class, 0, 1),
}

local function show_qspec(body, root)
  if not has(body, 4, root, "qspec") then return end
  local tree = root:add(qspec, body)
  tree:add(s.version, body(0, 1))
  tree:add(s.is_local, body(0, 1))
  tree:add(s.model, body(0, 2), body(0, 2):bitfield(5, 5))
  tree:add(s.sequence, body(1, 2), body(1, 2):bitfield(4, 4))
  tree:add(s.combination, body(2, 1), body(2, 1):bitfield(0, 4))
  local length = 4 * body(2, 2):bitfield(4, 12)
  if 4 + length > body:len() or length == 0 then
    tree:add_proto_expert_info(bad.qspec, "the length leads astray")
    return
  end
  objects(body(4, length), tree, "qspec", QSPEC_OBJECTS, function(_, inner, object, header)
    object:add(s.object_error, header(0, 1))
    object:add(s.object, header(0, 2))
    objects(inner, object, "qspec", PARAMETERS, function(number, value, one, head)
      one:add(s.mandatory, head(0, 1))
      one:add(s.failed, head(0, 1))
      one:add(s.not_supported, head(0, 1))
      one:add(s.parameter, head(0, 2))
      if parameters[number] then
        parameters[number](value, one)
      elseif value then
        one:add(s.data, value)
      end
    end)
  end)
  -- Inside a local one that of the whole path may follow.
  local initiator = rest(body, 4 + length)
  if initiator then show_qspec(initiator, tree) end
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

local function info_spec(body, tree)
  if not has(body, 4, tree, "qosnslp") then return end
  tree:add(q.code, body(1, 1))
  tree:add(q.class, body(2, 1), body(2, 1):bitfield(0, 4))
  local kind, length = body(2, 1):bitfield(4, 4), 4 * body(3, 1):uint()
  if not has(body, 4 + length, tree, "qosnslp") then return end
  if kind == 1 and length == 4 then
    tree:add(q.source4, body(4, 4))
  elseif kind == 2 and length == 16 then
    tree:add(q.source6, body(4, 16))
  elseif kind == 3 and length > 0 then
    tree:add(q.source_name, body(4, length), body(4, length):stringz())
  elseif length > 0 then
    tree:add(q.data, body(4, length))
  end
  local details = rest(body, 4 + length)
  if details then tree:add(q.data, details) end
end

local function word_and_id(body, tree)
  if not has(body, 20, tree, "qosnslp") then return end
  tree:add(q.both, body(3, 1))
  tree:add(q.message_id, body(4, 16))
end

-- So many octets each of the rest, from `at` on.
local function list(field, octets, at, body, tree)
  while body and at + octets <= body:len() do
    tree:add(field, body(at, octets))
    at = at + octets
  end
end

local qos_readers = {
  [1] = function(body, tree) if has(body, 4, tree, "qosnslp") then tree:add(q.rii, body(0, 4)) end end,
  [2] = function(body, tree)
    if not has(body, 8, tree, "qosnslp") then return end
    tree:add(q.rsn, body(0, 4))
    tree:add(q.epoch, body(4, 4))
  end,
  [3] = function(body, tree) if has(body, 4, tree, "qosnslp") then tree:add(q.refresh, body(0, 4)) end end,
  [4] = function(body, tree)
    if not has(body, 20, tree, "qosnslp") then return end
    tree:add(q.binding, body(3, 1))
    tree:add(q.session, body(4, 16))
  end,
  [5] = function(body, tree) if has(body, 4, tree, "qosnslp") then tree:add(q.classifier, body(0, 1)) end end,
  [6] = info_spec,
  [7] = function(body, tree) list(q.session, 16, 0, body, tree) end,
  [8] = function(body, tree)
    if not has(body, 4, tree, "qosnslp") then return end
    tree:add(q.epoch, body(0, 4))
    list(q.rsn, 4, 4, body, tree)
  end,
  [9] = word_and_id, [10] = word_and_id, [11] = show_qspec,
}

function qos.dissector(buffer, pinfo, root)
  local tree = root:add(qos, buffer())
  if buffer:len() < 4 then
    tree:add_proto_expert_info(bad.qosnslp, "shorter than its header")
    return buffer:len()
  end
  local kind = buffer(0, 1):uint()
  local name = QOS_TYPES[kind] or "unknown message"
  tree:append_text(", " .. name)
  pinfo.cols.info:append(", " .. name)
  tree:add(q.type, buffer(0, 1))
  tree:add(q.flags, buffer(1, 1))
  if kind == 1 then
    tree:add(q.tear, buffer(1, 1))
    tree:add(q.replace, buffer(1, 1))
  elseif kind == 2 then
    tree:add(q.reserve_init, buffer(1, 1))
  end
  for _, field in ipairs({ q.breaks, q.ack, q.proxy, q.scoping }) do tree:add(field, buffer(3, 1)) end
  objects(rest(buffer(), 4), tree, "qosnslp", QOS_OBJECTS, function(number, body, one, header)
    one:add(q.treatment, header(0, 2))
    one:add(q.object, header(0, 2))
    if qos_readers[number] then
      qos_readers[number](body, one)
    elseif body then
      one:add(q.data, body)
    end
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
  return function(body, tree) if has(body, 4, tree, "natfwnslp") then tree:add(field, body(0, 4)) end end
end

-- A port and the addresses behind it, which have a form for IPv4 only.
local function natfw_addresses(body, tree)
  if not has(body, 4, tree, "natfwnslp") then return end
  tree:add(n.port, body(0, 2))
  tree:add(n.ip_version, body(2, 1))
  if body(2, 1):bitfield(0, 4) ~= 4 then
    tree:add_proto_expert_info(bad.natfwnslp, "the IP version is not 4")
    return
  end
  list(n.address, 4, 4, body, tree)
end

local natfw_readers = {
  [12] = natfw_word(n.lifetime), [13] = natfw_addresses, [14] = natfw_addresses,
  [15] = function(body, tree)
    if not has(body, 4, tree, "natfwnslp") then return end
    tree:add(n.action, body(0, 2))
    tree:add(n.sub_ports, body(2, 2))
  end,
  [16] = function(body, tree)
    if not has(body, 4, tree, "natfwnslp") then return end
    tree:add(n.class, body(0, 1))
    tree:add(n.code, body(1, 1))
    tree:add(n.info_object, body(2, 2))
  end,
  [17] = natfw_word(n.nonce), [18] = natfw_word(n.msn),
  [19] = function(body, tree)
    if not has(body, 8, tree, "natfwnslp") then return end
    for _, field in ipairs({ n.has_protocol, n.has_ports, n.has_spi }) do tree:add(field, body(0, 1)) end
    tree:add(n.sender_prefix, body(2, 1))
    tree:add(n.protocol, body(3, 1))
    local flags = body(0, 1):uint()
    local ports, spi = flags % 128 >= 64, flags % 64 >= 32
    if ports and spi or (ports or spi) and flags < 128 then
      tree:add_proto_expert_info(bad.natfwnslp, "the flags contradict each other")
      return
    end
    local at = (ports or spi) and 8 or 4
    if not has(body, at + 4, tree, "natfwnslp") then return end
    if ports then
      tree:add(n.destination_port, body(4, 2))
      tree:add(n.source_port, body(6, 2))
    elseif spi then
      tree:add(n.spi, body(4, 4))
    end
    tree:add(n.sender, body(at, 4))
  end,
  [20] = function(body, tree)
    if not has(body, 4, tree, "natfwnslp") then return end
    local count = body(0, 1):uint()
    if has(body, 1 + count, tree, "natfwnslp") and count > 0 then list(n.icmp_type, 1, 0, body(1, count), tree) end
  end,
}

function natfw.dissector(buffer, pinfo, root)
  local tree = root:add(natfw, buffer())
  if buffer:len() < 4 then
    tree:add_proto_expert_info(bad.natfwnslp, "shorter than its header")
    return buffer:len()
  end
  local kind = buffer(0, 1):uint()
  local name = NATFW_TYPES[kind] or "unknown message"
  tree:append_text(", " .. name)
  pinfo.cols.info:append(", " .. name)
  tree:add(n.type, buffer(0, 1))
  if kind <= 2 then
    tree:add(n.proxy, buffer(1, 1))
    tree:add(n.end_to_end, buffer(1, 1))
  end
  objects(rest(buffer(), 4), tree, "natfwnslp", NATFW_OBJECTS, function(number, body, one, header)
    one:add(n.treatment, header(0, 2))
    one:add(n.object, header(0, 2))
    if natfw_readers[number] then
      natfw_readers[number](body, one)
    elseif body then
      one:add(n.data, body)
    end
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

local function record(body, tree, wanted)
  local at = 0
  for _, object in ipairs(wanted) do
    local kind, length = object[1], object[2]
    if kind == 1 and length == 16 then
      tree:add(p.address, body(at, 16))
    elseif kind == 2 and length == 8 then
      tree:add(p.seconds, body(at, 4))
      tree:add(p.microseconds, body(at + 4, 4))
    elseif kind == 0xff01 and length == 8 and body(at, 1):bitfield(0, 1) == 1 then
      tree:add(p.available, body(at, 8), body(at, 8):bitfield(1, 63))
    elseif length > 0 and kind ~= 0xff01 then
      tree:add(p.data, body(at, length))
    end
    at = at + length
  end
end

function ping.dissector(buffer, pinfo, root)
  local tree = root:add(ping, buffer())
  pinfo.cols.info:append(", Ping NSLP")
  local function malformed(why)
    tree:add_proto_expert_info(bad.pingnslp, why)
    return buffer:len()
  end
  local version = buffer:len() >= 8 and buffer(0, 1):uint() or 0
  local header = version == 1 and 8 or version == 2 and 12 or nil
  if not header or buffer:len() < header then return malformed("neither version 1 nor version 2") end
  local wide = version == 2 and 2 or 1
  local length, count = buffer(2, wide):uint(), buffer(2 + wide, 1):uint()
  tree:add(p.version, buffer(0, 1))
  tree:add(p.hops, buffer(1, 1))
  tree:add(p.length, buffer(2, wide))
  tree:add(p.count, buffer(2 + wide, 1))
  tree:add(p.sequence, buffer(header - 4, 4))
  if length > buffer:len() or length < header + 4 * count then return malformed("the length leads astray") end
  local wanted, size = {}, 0
  for number = 0, count - 1 do
    local at = header + 4 * number
    wanted[number + 1] = { buffer(at, 2):uint(), buffer(at + 2, 2):uint() }
    size = size + wanted[number + 1][2]
    local object = tree:add(p.object, buffer(at, 2))
    object:add(p.octets, buffer(at + 2, 2))
  end
  local at = header + 4 * count
  while size > 0 and at + size <= length do
    record(buffer(at, size), tree:add(buffer(at, size), "Record"), wanted)
    at = at + size
  end
  if at ~= length then return malformed("the last record is not whole") end
  return buffer:len()
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
