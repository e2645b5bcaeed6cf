//! Memory of sessions, as a heap that counts its octets reports it.

/// Returns the octets on the heap for each session: those of a population without those of an empty one.
pub fn octets_per_session<P>(
    heap: impl Fn() -> usize,
    empty: impl FnOnce() -> P,
    sessions: u32,
    populated: impl FnOnce(u32) -> P,
) -> f64 {
    let before = heap();
    let nobody = empty();
    let base = heap() - before;
    drop(nobody);
    let population = populated(sessions);
    let octets = heap() - before - base;
    drop(population);
    octets as f64 / f64::from(sessions)
}

/// Returns the part of the heap of a population that its tables tell, beyond those of an empty one.
pub fn share_of_tables<P>(
    heap: impl Fn() -> usize,
    empty: impl FnOnce() -> P,
    sessions: u32,
    populated: impl FnOnce(u32) -> P,
    tables: impl Fn(&P) -> usize,
) -> f64 {
    let before = heap();
    let nobody = empty();
    let (base, told) = (heap() - before, tables(&nobody));
    drop(nobody);
    let population = populated(sessions);
    let octets = heap() - before - base;
    (tables(&population) - told) as f64 / octets as f64
}
