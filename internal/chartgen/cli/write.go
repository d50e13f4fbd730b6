// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile writes a generated file, or with check only compares it with what is
// there. command makes it, from source.
func writeFile(path string, data []byte, check bool, command, source string) error {
	old, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read what was generated before: %w", err)
	case err == nil && bytes.Equal(old, data):
		return nil
	case check && err != nil:
		return fmt.Errorf("%s is missing: run %s without --check (make manifests does)", path, command)
	case check:
		return fmt.Errorf("%s is not what %s gives: run %s without --check (make manifests does)", path, source, command)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // #nosec G301 -- a folder of a source tree
		return fmt.Errorf("write what was generated: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil { // #nosec G306 -- a file of a source tree
		return fmt.Errorf("write what was generated: %w", err)
	}
	return nil
}
