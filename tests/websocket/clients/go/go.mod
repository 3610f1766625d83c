module fermata.test/client

go 1.24

require github.com/coder/websocket v1.8.14
