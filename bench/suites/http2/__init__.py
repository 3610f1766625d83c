"""HTTP/2 and TLS beside other servers."""
