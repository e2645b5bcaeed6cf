//! One hashed, hierarchical timing wheel: arm, cancel and fire in O(1).
