//! Seeded streams of random numbers, one per node and purpose.
