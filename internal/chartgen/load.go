// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartgen

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// Load reads a chart from its folder or archive.
func Load(path string) (*chart.Chart, error) {
	if path == "" {
		return nil, errors.New("no chart given: name its folder or archive, such as --chart helm-charts/guestbook")
	}
	chrt, err := loader.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: there is no such chart: name a folder with a Chart.yaml, or a .tgz archive: %w", path, err)
	case err != nil:
		return nil, &loadError{path, err}
	}
	return chrt, nil
}

// loadError is one line, whatever the loader says.
type loadError struct {
	path string
	err  error
}

func (e *loadError) Error() string {
	return e.path + ": the chart can't be read: " + strings.Join(strings.Fields(e.err.Error()), " ")
}

func (e *loadError) Unwrap() error { return e.err }
