//! The C ABI of Fermata
