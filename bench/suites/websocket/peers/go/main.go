// `server echo|subprotocol|broadcast PORT [CERTIFICATE KEY]`, on github.com/coder/websocket.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"runtime"
	"sync"

	"github.com/coder/websocket"
)

// Maximum number of queued messages per client.
const queueMax = 4096

type hub struct {
	lock sync.Mutex
	all  map[chan []byte]struct{}
}

func (h *hub) join(c chan []byte) {
	h.lock.Lock()
	h.all[c] = struct{}{}
	h.lock.Unlock()
}

func (h *hub) leave(c chan []byte) {
	h.lock.Lock()
	delete(h.all, c)
	h.lock.Unlock()
}

func (h *hub) broadcast(message []byte) {
	h.lock.Lock()
	defer h.lock.Unlock()
	for c := range h.all {
		c <- message
	}
}

func main() {
	// One processor, because all other peers run one process.
	runtime.GOMAXPROCS(1)
	mode, port := os.Args[1], os.Args[2]
	everybody := &hub{all: map[chan []byte]struct{}{}}
	options := &websocket.AcceptOptions{
		Subprotocols:    []string{"bench"},
		CompressionMode: websocket.CompressionDisabled,
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, options)
		if err != nil {
			return
		}
		defer socket.CloseNow()
		socket.SetReadLimit(16 << 20)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if mode == "broadcast" {
			queue := make(chan []byte, queueMax)
			everybody.join(queue)
			defer everybody.leave(queue)
			go func() {
				for {
					select {
					case message := <-queue:
						if socket.Write(ctx, websocket.MessageText, message) != nil {
							return
						}
					case <-ctx.Done():
						return
					}
				}
			}()
		}
		for {
			kind, message, err := socket.Read(ctx)
			if err != nil {
				return
			}
			if mode == "broadcast" {
				everybody.broadcast(message)
			} else if socket.Write(ctx, kind, message) != nil {
				return
			}
		}
	})
	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: handler}
	if len(os.Args) > 4 {
		log.Fatal(server.ListenAndServeTLS(os.Args[3], os.Args[4]))
	}
	log.Fatal(server.ListenAndServe())
}
