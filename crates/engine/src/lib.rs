//! The server: connections, workers, back-pressure, shutdown
