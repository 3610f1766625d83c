// Go's HTTP/2 client: concurrent requests over one connection, a body in both directions, early hints, and
// key exchange with X25519MLKEM768 (Go reports the negotiated group from version 1.25 on).
//
//	GO111MODULE=off go run client.go https://127.0.0.1:PORT CA.pem
//
// Without a module, Go uses the defaults of old versions.
//
//go:debug tlsmlkem=1
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"sync/atomic"
)

const requests = 60

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// send returns the body of the response; any response but a 200 over HTTP/2 exits the program.
func send(client *http.Client, request *http.Request) []byte {
	response, err := client.Do(request)
	check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(err)
	if response.StatusCode != 200 || response.Proto != "HTTP/2.0" {
		check(fmt.Errorf("%s: %s %s", request.URL, response.Proto, response.Status))
	}
	if response.TLS.CurveID != tls.X25519MLKEM768 {
		check(fmt.Errorf("the key exchange is %s", response.TLS.CurveID))
	}
	return body
}

func main() {
	url := os.Args[1]
	authority, err := os.ReadFile(os.Args[2])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}

	var opened, hints atomic.Int32
	trace := &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			if !got.Reused {
				opened.Add(1)
			}
		},
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code == 103 && header.Get("Link") != "" {
				hints.Add(1)
			}
			return nil
		},
	}
	ask := func(method, path string, body []byte) []byte {
		request, err := http.NewRequest(method, url+path, bytes.NewReader(body))
		check(err)
		return send(client, request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	}

	ask("GET", "/who", nil)
	var all sync.WaitGroup
	for range requests {
		all.Add(1)
		go func() {
			defer all.Done()
			ask("GET", "/who", nil)
		}()
	}
	all.Wait()
	body := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	if !bytes.Equal(ask("POST", "/body", body), body) {
		check(fmt.Errorf("the body came back changed"))
	}
	ask("GET", "/hints", nil)
	fmt.Printf("%d requests, %d connection, %d hint\n", requests+3, opened.Load(), hints.Load())
}
