//! Placeholder for the tables.
