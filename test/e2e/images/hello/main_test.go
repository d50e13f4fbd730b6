// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// redis starts the stand-in on a free port and returns its address. The test
// fails if it does not stop when it is told to.
func redis(t *testing.T, arguments ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "redis-server", append([]string{"--port", port}, arguments...)) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server did not stop")
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := ping(t.Context(), address); err == nil {
			return address
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestRedisAnswersClientsAndPersons(t *testing.T) {
	for name, test := range map[string]struct {
		arguments     []string
		command, want string
	}{
		"a person's ping":      {nil, "ping\r\n", "+PONG\r\n"},
		"a client's ping":      {nil, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"},
		"info of a leader":     {nil, "INFO\r\n", "$13\r\nrole:master\r\n\r\n"},
		"info of a follower":   {[]string{"--save", "", "--replicaof", "a", "6379"}, "INFO\r\n", "$27\r\nrole:slave\r\nmaster:a:6379\r\n\r\n"},
		"what it doesn't know": {nil, "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "-ERR unknown command 'GET'\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", redis(t, test.arguments...))
			if err != nil {
				t.Fatal(err)
			}
			defer connection.Close()
			_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := connection.Write([]byte(test.command)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(test.want))
			for read := 0; read < len(got); {
				n, err := connection.Read(got[read:])
				read += n
				if err != nil {
					t.Fatalf("%v after %q", err, got[:read])
				}
			}
			if string(got) != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHandler(t *testing.T) {
	server := httptest.NewServer(handler(func(string) string { return "leader.invalid" }))
	defer server.Close()
	for path, want := range map[string]int{"/": http.StatusOK, "/env/NAME": http.StatusOK, "/redis": http.StatusBadGateway, "/none": http.StatusNotFound} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestGetTriesUntilTheAnswerIsGood(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("hello"))
	}))
	defer server.Close()
	var out bytes.Buffer
	if err := get(t.Context(), &out, []string{server.URL}); err != nil || out.String() != "hello" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	asked.Store(-1000)
	err := get(t.Context(), &out, []string{"--for", "300ms", server.URL})
	if err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v, want the last answer", err)
	}
}
