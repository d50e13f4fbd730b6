// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const redisPort = "6379"

// redisServer answers clients on the port in Redis' arguments until ctx ends.
// It keeps nothing: it knows PING and INFO.
func redisServer(ctx context.Context, arguments []string) error {
	port, leader := redisPort, ""
	for i, argument := range arguments {
		rest := arguments[i+1:]
		switch {
		case argument == "--port" && len(rest) > 0:
			port = rest[0]
		case argument == "--replicaof" && len(rest) > 1:
			leader = net.JoinHostPort(rest[0], rest[1])
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("", port))
	if err != nil {
		return err
	}
	ended := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer ended()
	for {
		connection, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		go answer(connection, leader)
	}
}

// answer answers one client until it leaves or is silent for long.
func answer(connection net.Conn, leader string) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for {
		if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return
		}
		command, err := readCommand(reader)
		if err != nil {
			return
		}
		if _, err := connection.Write([]byte(reply(command, leader))); err != nil {
			return
		}
	}
}

// readCommand reads a command as clients send it, an array of strings, or as a
// person types it, in one line.
func readCommand(reader *bufio.Reader) ([]string, error) {
	const most = 64
	line, err := readLine(reader)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "*") {
		return strings.Fields(line), nil
	}
	count, err := strconv.Atoi(line[1:])
	if err != nil || count < 0 || count > most {
		return nil, fmt.Errorf("bad count %q", line)
	}
	command := make([]string, count)
	for i := range command {
		// The length is not needed, since no word has a line break.
		if _, err := readLine(reader); err != nil {
			return nil, err
		}
		if command[i], err = readLine(reader); err != nil {
			return nil, err
		}
	}
	return command, nil
}

func readLine(reader *bufio.Reader) (string, error) {
	line, isPrefix, err := reader.ReadLine()
	if isPrefix {
		return "", errors.New("the line is too long")
	}
	return string(line), err
}

func reply(command []string, leader string) string {
	if len(command) == 0 {
		return ""
	}
	switch strings.ToUpper(command[0]) {
	case "PING":
		return "+PONG\r\n"
	case "INFO":
		info := "role:master\r\n"
		if leader != "" {
			info = "role:slave\r\nmaster:" + leader + "\r\n"
		}
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	default:
		return fmt.Sprintf("-ERR unknown command '%s'\r\n", command[0])
	}
}

// ping asks a Redis server whether it is there and returns its answer.
func ping(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := connection.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := connection.Write([]byte("PING\r\n")); err != nil {
		return "", err
	}
	line, err := readLine(bufio.NewReader(connection))
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(line, "+"), nil
}
