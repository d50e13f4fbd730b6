// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Command web is what the tests' Pods run: a web server, and the client and
// file tools to look at things from inside of a Pod.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	switch {
	case len(arguments) == 1 && arguments[0] == "serve":
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			fmt.Println("asked for", r.URL.Path)
			fmt.Fprintln(w, "hello from", host)
		})
		return http.ListenAndServe(":8080", nil)
	case len(arguments) == 2 && arguments[0] == "get":
		return get(arguments[1])
	case len(arguments) == 3 && arguments[0] == "write":
		return os.WriteFile(arguments[1], []byte(arguments[2]), 0o600)
	default:
		return fmt.Errorf("usage: web serve | get URL | write FILE TEXT, not %q", arguments)
	}
}

// get tries for a while, since a Service's rules follow its Pods.
func get(url string) error {
	client := http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	var err error
	for range 20 {
		var response *http.Response
		if response, err = client.Get(url); err == nil {
			defer response.Body.Close()
			fmt.Println(response.Status)
			_, err = io.Copy(os.Stdout, response.Body)
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
	return err
}
