// A backend with Pusher's unmodified Go library. It prints its actions, line by line.
//
//	hooks ID:KEY:SECRET                     prints its port, then receives webhooks
//	talk  ID:KEY:SECRET PORT SOCKET SOCKET  publishes to the hub at this port, queries it, and signs for two clients
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	pusher "github.com/pusher/pusher-http-go/v5"
)

const patience = 60 * time.Second

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	app := strings.Split(os.Args[2], ":")
	client := pusher.Client{
		AppID: app[0], Key: app[1], Secret: app[2],
		// 32 bytes in base64.
		EncryptionMasterKeyBase64: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		HTTPClient:                &http.Client{Timeout: 30 * time.Second},
	}
	switch os.Args[1] {
	case "hooks":
		hooks(&client)
	case "talk":
		client.Host = "127.0.0.1:" + os.Args[3]
		talk(&client, os.Args[4], os.Args[5])
	}
}

// hooks prints the events of each POST whose signature the library accepts.
func hooks(client *pusher.Client) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	check(http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		webhook, err := client.Webhook(request.Header, must(io.ReadAll(request.Body)))
		if err != nil {
			fmt.Println(err)
			answer.WriteHeader(http.StatusForbidden)
			return
		}
		for _, event := range webhook.Events {
			fmt.Println(event.Name, event.Channel, event.UserID, event.Event, event.Data)
		}
	})))
}

func talk(client *pusher.Client, socket, other string) {
	check(client.Trigger("news", "item", map[string]string{"text": "é"}))
	check(client.TriggerMulti([]string{"news", "other"}, "item", map[string]string{"text": "two"}))
	check(client.TriggerExclusive("news", "item", map[string]string{"text": "not to the other"}, other))
	batch := []pusher.Event{
		{Channel: "news", Name: "item", Data: map[string]int{"at": 1}},
		{Channel: "news", Name: "item", Data: map[string]int{"at": 2}, SocketID: &other},
	}
	must(client.TriggerBatch(batch))
	check(client.Trigger("private-encrypted-room", "item", "secret"))
	check(client.SendToUser("ann", "item", map[string]string{"text": "to Ann"}))
	fmt.Println("published")

	one, two := 1, 2
	subscriptions, users := "subscription_count", "user_count,subscription_count"
	expect(pusher.Channel{Name: "news", Occupied: true, SubscriptionCount: 2}, func() any {
		return *must(client.Channel("news", pusher.ChannelParams{Info: &subscriptions}))
	})
	expect(map[string]pusher.ChannelListItem{"presence-room": {UserCount: 1}}, func() any {
		prefix, count := "presence-", "user_count"
		return must(client.Channels(pusher.ChannelsParams{FilterByPrefix: &prefix, Info: &count})).Channels
	})
	expect([]pusher.User{{ID: "ann"}}, func() any {
		return must(client.GetChannelUsers("presence-room")).List
	})
	expect(map[string]pusher.TriggerChannelListItem{"presence-room": {UserCount: &one, SubscriptionCount: &one}}, func() any {
		params := pusher.TriggerParams{Info: &users}
		return must(client.TriggerWithParams("presence-room", "item", "x", params)).Channels
	})
	expect([]pusher.TriggerBatchChannelListItem{{SubscriptionCount: &two}}, func() any {
		event := pusher.Event{Channel: "news", Name: "counted", Data: "x", Info: &subscriptions}
		return must(client.TriggerBatch([]pusher.Event{event})).Batch
	})
	fmt.Println("asked")

	params := func(channel string) []byte {
		return []byte(url.Values{"socket_id": {socket}, "channel_name": {channel}}.Encode())
	}
	member := pusher.MemberData{UserID: "go", UserInfo: map[string]string{"name": "Go"}}
	for _, signed := range [][]byte{
		must(client.AuthorizePrivateChannel(params("private-room"))),
		must(client.AuthorizePrivateChannel(params("private-encrypted-room"))),
		must(client.AuthorizePresenceChannel(params("presence-room"), member)),
		must(client.AuthenticateUser(params(""), map[string]any{"id": "go"})),
	} {
		fmt.Println(string(signed))
	}

	wrong := *client
	wrong.Secret = "guessed"
	if err := wrong.Trigger("news", "item", "x"); err == nil || !strings.Contains(err.Error(), "401") {
		panic(fmt.Sprintf("a wrong secret was taken: %v", err))
	}
	fmt.Println("refused")
}

// expect retries until the response is as expected: workers receive each other's counts a moment later.
func expect(expected any, ask func() any) {
	end := time.Now().Add(patience)
	for {
		found := ask()
		if reflect.DeepEqual(found, expected) {
			return
		}
		if time.Now().After(end) {
			panic(string(must(json.Marshal(found))))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
