// Serves a small JSON response with net/http. Pinned to one core, Go sets GOMAXPROCS to 1.
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
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
