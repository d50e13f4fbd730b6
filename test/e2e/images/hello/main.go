// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command hello stands in for the programs of the example charts in tests on
// real nodes. It needs no file, no shell and no right.
//
//	hello [serve] [--http PORT] [--redis PORT]
//	hello files --tls-cert FILE --tls-key FILE DIR
//	hello get [--for DURATION] URL
//	redis-server [--port PORT] [--replicaof HOST PORT] [...]
//
// serve answers HTTP, by default on port 80 or the one that variable PORT names, and on demand Redis' protocol.
// Started as redis-server it takes that program's arguments. files serves a folder by
// HTTPS, on the same port. get prints what a URL answers; it tries again until the
// answer is 200 or the time is over.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	// The first process of a container ignores signals that it has no handler for.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, filepath.Base(os.Args[0]), os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "hello: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, name string, arguments []string) error {
	if name == "redis-server" {
		return redisServer(ctx, arguments)
	}
	command := "serve"
	if len(arguments) > 0 && !strings.HasPrefix(arguments[0], "-") {
		command, arguments = arguments[0], arguments[1:]
	}
	switch command {
	case "serve":
		return serve(ctx, arguments)
	case "files":
		return files(ctx, arguments)
	case "get":
		return get(ctx, os.Stdout, arguments)
	default:
		return fmt.Errorf("unknown command %q: use serve, files or get", command)
	}
}

func serve(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	httpPort := flags.String("http", port(), "port for HTTP; without it, variable PORT says")
	redisPort := flags.String("redis", "", "port for Redis' protocol; none if empty")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("serve takes no argument %q", flags.Arg(0))
	}
	problems := make(chan error, 2)
	servers := 1
	go func() { problems <- serveHTTP(ctx, *httpPort) }()
	if *redisPort != "" {
		servers++
		go func() { problems <- redisServer(ctx, []string{"--port", *redisPort}) }()
	}
	for range servers {
		if err := <-problems; err != nil {
			return err
		}
	}
	return nil
}

// serveHTTP answers until ctx ends.
// port is the one that variable PORT names, or 80.
func port() string { return cmp.Or(os.Getenv("PORT"), "80") }

// files serves a folder by HTTPS.
func files(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("files", flag.ContinueOnError)
	certificate := flags.String("tls-cert", "", "file of the certificate")
	key := flags.String("tls-key", "", "file of its key")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("files takes one folder, not %q", flags.Args())
	}
	return listen(ctx, port(), http.FileServer(http.Dir(flags.Arg(0))), func(s *http.Server, l net.Listener) error {
		return s.ServeTLS(l, *certificate, *key)
	})
}

func serveHTTP(ctx context.Context, port string) error {
	return listen(ctx, port, handler(os.Getenv), (*http.Server).Serve)
}

// listen serves on a port until ctx ends.
func listen(ctx context.Context, port string, handler http.Handler, serve func(*http.Server, net.Listener) error) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := context.AfterFunc(ctx, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(bounded)
	})
	defer ended()
	if err := serve(server, listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler answers "/" with a greeting, "/env/NAME" with a variable, and "/redis" with
// what the Redis servers say that the variables of the guestbook's frontend name.
func handler(variable func(string) string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		name, err := os.Hostname()
		if err != nil {
			name = err.Error()
		}
		fmt.Fprintf(w, "hello from %s\n", name)
	})
	mux.HandleFunc("GET /env/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, variable(r.PathValue("name")))
	})
	mux.HandleFunc("GET /redis", func(w http.ResponseWriter, r *http.Request) {
		var answers strings.Builder
		for _, role := range []string{"LEADER", "FOLLOWER"} {
			host := variable("REDIS_" + role + "_SERVICE_HOST")
			answer, err := ping(r.Context(), net.JoinHostPort(host, redisPort))
			if err != nil {
				http.Error(w, fmt.Sprintf("%s %q: %v", role, host, err), http.StatusBadGateway)
				return
			}
			fmt.Fprintf(&answers, "%s %s: %s\n", role, host, answer)
		}
		fmt.Fprint(w, answers.String())
	})
	return mux
}

// get prints the body of a URL's first good answer.
func get(ctx context.Context, out io.Writer, arguments []string) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	limit := flags.Duration("for", 30*time.Second, "how long to try")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("get takes one URL, not %q", flags.Args())
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	for {
		body, err := fetch(ctx, flags.Arg(0))
		if err == nil {
			_, err = out.Write(body)
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no good answer within %s: %w", *limit, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}
