//! Black-box tests over real sockets.
