// Holds event streams of a server and counts the received events: the client for the held-stream rows of `bench http2`.
//
// `h2hold URL STREAMS MODE` reads one command per line from standard input, and prints one line in response:
//
//	open N   opens connections until N exist, each with STREAMS streams that have received their head and first event
//	events   prints the events of all streams: total, and minimum and maximum per stream
//
// MODE is `h1` (HTTP/1.1 with one stream per connection), `h1s` (h1 over TLS), `h2c` (HTTP/2 by prior knowledge) or `h2`. The
// process exits at the end of standard input. It implements a minimum of HTTP/2: maximum windows and no dynamic table.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	connectTimeout = 30 * time.Second
	windowMax      = 1<<31 - 1
	windowFirst    = 65535
	// Beyond some thousands of connections, the kernel's search for a free port of one source address is slow.
	connectionsPerSource = 7000
	connectingMax        = 64

	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway, frameWindowUpdate = 0, 1, 3, 4, 6, 7, 8
	flagAck, flagEndStream, flagEndHeaders                                                        = 1, 1, 4
)

type stream struct {
	events atomic.Int64
	// The last byte was a line feed, so another line feed ends the event.
	lineEnded bool
}

type client struct {
	secure, multiplexed bool
	address, host, path string
	streams             int
	held                []*stream
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: h2hold URL STREAMS MODE")
	}
	target, err := url.Parse(os.Args[1])
	if err != nil {
		fail(err.Error())
	}
	var streams int
	if _, err := fmt.Sscan(os.Args[2], &streams); err != nil || streams < 1 {
		fail("STREAMS has to be a number of at least 1")
	}
	mode := os.Args[3]
	all := &client{
		secure:      mode == "h1s" || mode == "h2",
		multiplexed: mode == "h2c" || mode == "h2",
		address:     target.Host,
		host:        target.Host,
		path:        target.RequestURI(),
		streams:     streams,
	}
	if !all.multiplexed && streams != 1 {
		fail("a connection of HTTP/1.1 has one stream")
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var connections int
		switch line := strings.TrimSpace(lines.Text()); {
		case line == "events":
			all.report()
		default:
			if _, err := fmt.Sscanf(line, "open %d", &connections); err != nil {
				fail("unknown step: " + line)
			}
			all.open(connections)
			fmt.Println("open", connections)
		}
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, "h2hold:", text)
	os.Exit(1)
}

// open opens connections until the given number exists.
func (c *client) open(connections int) {
	first := len(c.held) / c.streams
	for index := first; index < connections; index++ {
		for range c.streams {
			c.held = append(c.held, &stream{})
		}
	}
	results := make(chan error, connectingMax)
	for index, running := first, 0; index < connections || running > 0; {
		if index < connections && running < connectingMax {
			go func(index int) { results <- c.connect(index) }(index)
			index, running = index+1, running+1
			continue
		}
		if err := <-results; err != nil {
			fail(err.Error())
		}
		running--
	}
}

// connect opens a connection and starts its reader. It returns after all streams have received their first event.
func (c *client) connect(index int) error {
	source := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+index/connectionsPerSource))}
	dialer := net.Dialer{Timeout: connectTimeout, LocalAddr: source}
	connection, err := dialer.Dial("tcp", c.address)
	if err != nil {
		return err
	}
	connection.SetDeadline(time.Now().Add(connectTimeout))
	if c.secure {
		protocol := "http/1.1"
		if c.multiplexed {
			protocol = "h2"
		}
		secure := tls.Client(connection, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
		if err := secure.Handshake(); err != nil {
			return err
		}
		if got := secure.ConnectionState().NegotiatedProtocol; got != protocol {
			return fmt.Errorf("%s was not agreed to, but %q", protocol, got)
		}
		connection = secure
	}
	ready := make(chan error, 1)
	held := c.held[index*c.streams : (index+1)*c.streams]
	if c.multiplexed {
		if _, err := connection.Write(c.requests()); err != nil {
			return err
		}
		go readFrames(connection, held, ready)
	} else {
		request := "GET " + c.path + " HTTP/1.1\r\nHost: " + c.host + "\r\nAccept: text/event-stream\r\n\r\n"
		if _, err := io.WriteString(connection, request); err != nil {
			return err
		}
		go readStream(connection, held[0], ready)
	}
	if err := <-ready; err != nil {
		return err
	}
	return connection.SetDeadline(time.Time{})
}

// requests returns the connection preface, SETTINGS and WINDOW_UPDATE with maximum windows, and a request for each stream.
func (c *client) requests() []byte {
	var out bytes.Buffer
	out.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	// SETTINGS_HEADER_TABLE_SIZE 0 disables the dynamic table; SETTINGS_INITIAL_WINDOW_SIZE is the maximum, 2^31-1.
	settings := []byte{0, 1, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff}
	frame(&out, frameSettings, 0, 0, settings)
	frame(&out, frameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, windowMax-windowFirst))
	scheme := byte(0x86)
	if c.secure {
		scheme = 0x87
	}
	// RFC 7541: GET and the scheme are indexed in the static table; path, authority and accept use its names.
	block := []byte{0x82, scheme}
	block = append(append(block, 0x01), text(c.host)...)
	block = append(append(block, 0x04), text(c.path)...)
	block = append(append(block, 0x0f, 19-15), text("text/event-stream")...)
	for number := range c.streams {
		frame(&out, frameHeaders, flagEndHeaders|flagEndStream, uint32(2*number+1), block)
	}
	return out.Bytes()
}

// text encodes a string literal without Huffman coding (RFC 7541, section 5.2).
func text(value string) []byte {
	if len(value) > 126 {
		fail("a header field is too long: " + value)
	}
	return append([]byte{byte(len(value))}, value...)
}

func frame(out *bytes.Buffer, kind, flags byte, id uint32, payload []byte) {
	out.Write([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags})
	out.Write(binary.BigEndian.AppendUint32(nil, id))
	out.Write(payload)
}

// readFrames counts the events of all streams of a connection. It reports once on `ready`: after every stream has received an
// event, or on failure. If the connection closes later, it exits the process, because the figures of that run are invalid.
func readFrames(connection net.Conn, held []*stream, ready chan<- error) {
	missing := len(held)
	err := func() error {
		in := bufio.NewReaderSize(connection, 4096)
		var head [9]byte
		for {
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return err
			}
			payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
			if _, err := io.ReadFull(in, payload); err != nil {
				return err
			}
			id := binary.BigEndian.Uint32(head[5:]) & windowMax
			switch kind, flags := head[3], head[4]; {
			case kind == frameData && id%2 == 1 && int(id/2) < len(held):
				one := held[id/2]
				before := one.events.Load()
				one.take(payload)
				if before == 0 && one.events.Load() > 0 {
					if missing--; missing == 0 {
						ready <- nil
					}
				}
				if flags&flagEndStream != 0 {
					return fmt.Errorf("stream %d has ended", id)
				}
			case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
				var answer bytes.Buffer
				if kind == frameSettings {
					payload = nil
				}
				frame(&answer, kind, flagAck, 0, payload)
				if _, err := connection.Write(answer.Bytes()); err != nil {
					return err
				}
			case kind == frameReset:
				return fmt.Errorf("stream %d was reset: %x", id, payload)
			case kind == frameGoAway:
				return fmt.Errorf("the connection was given up: %x", payload)
			}
		}
	}()
	ended(err, missing == 0, ready)
}

// readStream is readFrames for an HTTP/1.1 connection, whose single body is chunked or ends with the connection.
func readStream(connection net.Conn, one *stream, ready chan<- error) {
	told := false
	err := func() error {
		in := bufio.NewReaderSize(connection, 4096)
		status, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
			return fmt.Errorf("the answer was %q", status)
		}
		for line := status; line != "\r\n"; {
			if line, err = in.ReadString('\n'); err != nil {
				return err
			}
		}
		piece := make([]byte, 4096)
		for {
			count, err := in.Read(piece)
			if err != nil {
				return err
			}
			one.take(piece[:count])
			if !told && one.events.Load() > 0 {
				told = true
				ready <- nil
			}
		}
	}()
	ended(err, told, ready)
}

func ended(err error, told bool, ready chan<- error) {
	if told {
		fail("a held connection ended: " + err.Error())
	}
	ready <- err
}

// take counts the events in a piece of data: each ends with an empty line. Chunk sizes end with \r\n and do not form empty lines.
func (s *stream) take(piece []byte) {
	for _, one := range piece {
		if one == '\n' && s.lineEnded {
			s.events.Add(1)
		}
		s.lineEnded = one == '\n'
	}
}

func (c *client) report() {
	var sum, most int64
	least := int64(-1)
	for _, one := range c.held {
		count := one.events.Load()
		sum += count
		most = max(most, count)
		if least < 0 || count < least {
			least = count
		}
	}
	fmt.Println("events", sum, least, most)
}
