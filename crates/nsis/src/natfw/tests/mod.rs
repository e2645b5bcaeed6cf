//! Tests of NATFW NSLP.
