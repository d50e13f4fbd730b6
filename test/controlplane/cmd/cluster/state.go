// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// logName is the file that marks a folder as this command's: up creates it
	// before anything else.
	logName   = "cluster.log"
	stateName = "state.json"
)

// A state describes what up started. The serving process writes it.
type state struct {
	// Serve is the background process that holds the servers.
	Serve processRecord `json:"serve"`
	// Ready is false until all servers are.
	Ready       bool            `json:"ready"`
	URL         string          `json:"url,omitempty"`
	Kubeconfig  string          `json:"kubeconfig,omitempty"`
	Registry    string          `json:"registry,omitempty"` // of a real node
	Controllers bool            `json:"controllers"`
	Nodes       int             `json:"nodes"`
	Audit       bool            `json:"audit"`
	Deadline    time.Time       `json:"deadline"`
	Servers     []processRecord `json:"servers,omitempty"`
}

// A processRecord identifies a process beyond the reuse of its id.
type processRecord struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Started string `json:"started"`
	Log     string `json:"log,omitempty"`
}

// readState returns nil without an error if there is none.
func readState(dir string) (*state, error) {
	path := filepath.Join(dir, stateName)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the control plane's state: %w", err)
	}
	var s state
	if err := json.Unmarshal(content, &s); err != nil {
		return nil, fmt.Errorf("read the control plane's state %s: %w; stop its processes by hand and remove %s", path, err, dir)
	}
	return &s, nil
}

// write replaces the state file as a whole.
func (s state) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the control plane's state: %w", err)
	}
	path := filepath.Join(dir, stateName)
	if err := os.WriteFile(path+".new", append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the control plane's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the control plane's state: %w", err)
	}
	return nil
}

// checkDir refuses a folder with foreign content, since down removes it.
func checkDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look into the folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, logName)); err != nil {
		return fmt.Errorf("%s holds files of something else: choose another folder with --dir", dir)
	}
	return nil
}
