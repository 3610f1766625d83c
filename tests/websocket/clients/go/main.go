// Go's coder/websocket: main URL
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	socket, response, err := websocket.Dial(ctx, os.Args[1], &websocket.DialOptions{
		Subprotocols:    []string{"v2", "v1"},
		CompressionMode: websocket.CompressionContextTakeover,
	})
	if err != nil {
		return err
	}
	defer socket.CloseNow()
	socket.SetReadLimit(-1)
	large := bytes.Repeat([]byte("fermata holds this note "), 8000)
	type message struct {
		kind websocket.MessageType
		data []byte
	}
	sent := []message{
		{websocket.MessageText, []byte("grüße 🎵")},
		{websocket.MessageText, nil},
		{websocket.MessageText, bytes.Repeat([]byte("x"), 70_000)},
		{websocket.MessageBinary, large},
	}
	same, count := true, 0
	for _, message := range sent {
		if err := socket.Write(ctx, message.kind, message.data); err != nil {
			return err
		}
	}
	for _, message := range sent {
		kind, data, err := socket.Read(ctx)
		if err != nil {
			return err
		}
		same = same && kind == message.kind && bytes.Equal(data, message.data)
		count++
	}
	// Close waits for the peer's close frame, and fails if its code differs.
	err = socket.Close(4000, "bye")
	code := 4000
	if err != nil {
		code = int(websocket.CloseStatus(err))
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"same":       same,
		"count":      count,
		"protocol":   socket.Subprotocol(),
		"compressed": strings.Contains(response.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate"),
		"code":       code,
		"wasClean":   err == nil,
	})
}
