//! Event loop drivers, timers, buffers, sockets and processes
