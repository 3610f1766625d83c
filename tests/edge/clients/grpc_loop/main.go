// Calls a gRPC server (grpc_calls.py) in a loop: grpc_loop HOST:PORT
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

// raw sends bytes unchanged, because the server has no schema.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

const service = "/fermata.Test/"

func check(err error, doing string) {
	if err != nil {
		fmt.Fprintln(os.Stderr, doing, err)
		os.Exit(1)
	}
}

func open(ctx context.Context, conn *grpc.ClientConn, desc *grpc.StreamDesc, method, first string) grpc.ClientStream {
	stream, err := conn.NewStream(ctx, desc, service+method)
	check(err, method)
	message := []byte(first)
	check(stream.SendMsg(&message), method)
	return stream
}

func main() {
	encoding.RegisterCodec(raw{})
	conn, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	check(err, "connect")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	request, reply := []byte("hello"), []byte(nil)
	for range 3_000 {
		check(conn.Invoke(ctx, service+"Unary", &request, &reply), "unary call")
	}
	server := &grpc.StreamDesc{ServerStreams: true}
	both := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream := open(ctx, conn, server, "Count", "20000")
	check(stream.CloseSend(), "count")
	for count := 0; ; count++ {
		err := stream.RecvMsg(&reply)
		if err == io.EOF && count == 20_000 {
			break
		}
		check(err, "count")
	}
	stream = open(ctx, conn, both, "Echo", "x")
	for range 5_000 {
		check(stream.RecvMsg(&reply), "echo")
		check(stream.SendMsg(&reply), "echo")
	}
	check(stream.CloseSend(), "echo")
	for range 1_500 {
		each, leave := context.WithCancel(ctx)
		stream := open(each, conn, server, "Count", "100")
		check(stream.CloseSend(), "cancelled call")
		check(stream.RecvMsg(&reply), "cancelled call")
		leave()
	}
	check(conn.Invoke(ctx, service+"Unary", &request, &reply), "last call")
	fmt.Println("no call was lost")
}
