//! Compiled BPF programs: ELF objects, of which the loader needs one section and its references to maps.
//!
//! BPF compilers write 64-bit little-endian ELF. A reference to a map is a 16-octet load instruction with a relocation;
//! the kernel expects the map's descriptor in the instruction, and a mark that it is a map descriptor.

/// Classifier object that `bpf/build.sh` compiles from `bpf/classifier.c`.
pub(crate) const CLASSIFIER: &[u8] = include_bytes!("../bpf/classifier.o");
/// Object with the packet source and the packet sink.
pub(crate) const PACKETS: &[u8] = include_bytes!("../bpf/packets.o");

const SECTION_HEADER: usize = 64;
const RELOCATION: usize = 16;
const SYMBOL: usize = 24;
/// `R_BPF_64_64`: a 64-bit load of an address.
const LOAD: u64 = 1;
/// Load instruction of 64 bits (`BPF_LD | BPF_IMM | BPF_DW`).
const LOAD_INSTRUCTION: u8 = 0x18;
/// `BPF_PSEUDO_MAP_FD`: the loaded value is a map, given by its descriptor.
const IS_MAP: u8 = 1;

/// Why an object cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed BPF object: {field} at offset {offset}")]
pub(crate) struct ObjectError {
    field: &'static str,
    offset: usize,
}

#[derive(Clone, Copy, Debug)]
struct Section<'a> {
    name: &'a str,
    octets: &'a [u8],
    /// The section that this one refers to: the symbols of a relocation section, or the names of a symbol section.
    linked: usize,
}

/// Returns the instructions of the program in a section, with map references resolved. `maps`: the symbol of each map
/// and its descriptor.
pub(crate) fn link(
    object: &[u8],
    section: &str,
    maps: &[(&str, i32)],
) -> Result<Vec<u8>, ObjectError> {
    let sections = sections(object)?;
    let named = |name: &str| sections.iter().find(|s| s.name == name);
    let wrong = |field, offset| ObjectError { field, offset };
    let code = named(section).ok_or(wrong("program section", 0))?;
    let mut instructions = code.octets.to_vec();
    let Some(references) = named(&format!(".rel{section}")) else {
        return Ok(instructions);
    };
    let symbols = sections.get(references.linked).ok_or(wrong("symbol table", 0))?;
    let names = sections.get(symbols.linked).ok_or(wrong("symbol names", 0))?;
    for reference in references.octets.chunks_exact(RELOCATION) {
        let at = number::<8>(reference, 0)? as usize;
        let information = number::<8>(reference, 8)?;
        let symbol = (information >> 32) as usize;
        let name = number::<4>(symbols.octets, symbol.saturating_mul(SYMBOL))?;
        let name = text(names.octets, name as usize)?;
        let map = maps.iter().find(|(symbol, _)| *symbol == name).map(|(_, map)| map);
        let (Some(map), LOAD) = (map, information & 0xffff_ffff) else {
            return Err(wrong("reference", at));
        };
        let load = instructions.get_mut(at..at.saturating_add(16));
        let load = load.ok_or(wrong("reference", at))?;
        if load[0] != LOAD_INSTRUCTION {
            return Err(wrong("load instruction", at));
        }
        load[1] = load[1] & 0x0f | IS_MAP << 4;
        load[4..8].copy_from_slice(&map.to_le_bytes());
    }
    // The bytes are still little-endian, like the machines that this object is for.
    Ok(instructions)
}

fn sections(object: &[u8]) -> Result<Vec<Section<'_>>, ObjectError> {
    // ELF, 64 bits, little-endian.
    if !object.starts_with(b"\x7fELF\x02\x01") {
        return Err(ObjectError { field: "ELF header", offset: 0 });
    }
    let table = number::<8>(object, 0x28)? as usize;
    let count = number::<2>(object, 0x3c)? as usize;
    let names = number::<2>(object, 0x3e)? as usize;
    if table.saturating_add(count * SECTION_HEADER) > object.len() {
        return Err(ObjectError { field: "section headers", offset: 0x28 });
    }
    let header = |n: usize| table.saturating_add(n * SECTION_HEADER);
    let octets = |n: usize| {
        let start = number::<8>(object, header(n).saturating_add(24))? as usize;
        let length = number::<8>(object, header(n).saturating_add(32))? as usize;
        let octets = object.get(start..start.saturating_add(length));
        // A section without octets in the file (all zeros, `SHT_NOBITS`) has a location all the same.
        Ok(octets.unwrap_or_default())
    };
    let all_names = octets(names)?;
    (0..count)
        .map(|n| {
            let name = text(all_names, number::<4>(object, header(n))? as usize)?;
            let linked = number::<4>(object, header(n).saturating_add(40))? as usize;
            Ok(Section { name, octets: octets(n)?, linked })
        })
        .collect()
}

/// Reads a little-endian number of `N` octets at an offset.
fn number<const N: usize>(octets: &[u8], at: usize) -> Result<u64, ObjectError> {
    let cut_short = ObjectError { field: "number", offset: at };
    let found = octets.get(at..).and_then(|o| o.first_chunk::<N>()).ok_or(cut_short)?;
    Ok(found.iter().rev().fold(0, |value, &octet| value << 8 | u64::from(octet)))
}

/// Reads the zero-terminated text at an offset.
fn text(octets: &[u8], at: usize) -> Result<&str, ObjectError> {
    let wrong = ObjectError { field: "name", offset: at };
    let rest = octets.get(at..).ok_or(wrong)?;
    let end = rest.iter().position(|&o| o == 0).ok_or(wrong)?;
    std::str::from_utf8(&rest[..end]).map_err(|_| wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classifier(object: &[u8], map: i32) -> Result<Vec<u8>, ObjectError> {
        link(
            object,
            "classifier",
            &[
                ("flows", map),
                ("buckets", 77),
                ("flows_ipv4", 76),
                ("ranges", 78),
                ("masks", 79),
                ("links", 8),
                ("work_areas", 9),
            ],
        )
    }

    fn loads(code: &[u8], map: i32) -> usize {
        let is_load = |i: &&[u8]| i[0] == 0x18 && i[1] >> 4 == 1 && i[4..8] == map.to_le_bytes();
        code.chunks_exact(8).filter(is_load).count()
    }

    /// Every reference to the map carries the descriptor; nothing else has changed.
    #[test]
    fn map_descriptor_is_linked_into_the_program() {
        let one = classifier(CLASSIFIER, 0x1234).expect("fine");
        let other = classifier(CLASSIFIER, 5).expect("fine");
        assert_eq!(one.len() % 8, 0);
        assert!(loads(&one, 0x1234) > 0);
        assert_eq!(loads(&one, 0x1234), loads(&other, 5));
        assert_eq!(loads(&other, 0x1234), 0);
    }

    /// A cut or altered object gives a result and never a panic.
    #[test]
    fn malformed_object_is_refused() {
        for length in 0..CLASSIFIER.len() {
            let _ = classifier(&CLASSIFIER[..length], 5);
        }
        assert!(classifier(&CLASSIFIER[..CLASSIFIER.len() - 1], 5).is_err());
        assert!(classifier(&CLASSIFIER[1..], 5).is_err());
        for at in 0..CLASSIFIER.len() {
            let mut altered = CLASSIFIER.to_vec();
            altered[at] ^= 0xff;
            let _ = classifier(&altered, 5);
        }
    }
}
