//! Admission: what may be stored, and what is filled in.

pub mod duplicates;
