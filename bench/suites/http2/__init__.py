"""The suite `http2`: HTTP/2 and TLS compared with other servers."""
