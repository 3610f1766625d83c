// Serves a small JSON response over HTTP/2 and TLS with net/http. Pinned to one core, Go sets GOMAXPROCS to 1.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
)

type answer struct {
	Status string `json:"status"`
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := json.Marshal(answer{Status: "OK"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+os.Args[1], os.Args[2], os.Args[3], nil))
}
