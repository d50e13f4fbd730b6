// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package chartsource

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

const (
	// maxChartFiles of one chart, subcharts included.
	maxChartFiles = 20_000
	// maxNesting of archives within archives.
	maxNesting = 8
)

// loadArchive loads a chart from its archive, which somebody else made: what it
// holds unpacked, packed subcharts included, is measured before it is loaded.
func loadArchive(archive []byte, maxUnpacked int64) (c *chart.Chart, size int64, err error) {
	m := measure{bytes: maxUnpacked, files: maxChartFiles}
	if err := m.archive(bytes.NewReader(archive), maxNesting); err != nil {
		return nil, 0, err
	}
	defer func() {
		if p := recover(); p != nil {
			err = stuck(v1alpha1.ReasonChartInvalid, "the archive makes Helm's loader fail: %v", p)
		}
	}()
	c, err = loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, 0, absent(v1alpha1.ReasonChartInvalid, "not a chart: %s", plain(err.Error()))
	}
	if err := prepare(c); err != nil {
		return nil, 0, absent(v1alpha1.ReasonChartInvalid, "%w", err)
	}
	return c, maxUnpacked - m.bytes, nil
}

// prepare checks that the chart can be released, and reads its numbers exactly.
func prepare(c *chart.Chart) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Metadata.Type == "library" {
		return errors.New("it is a library chart, which cannot be installed")
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		return fmt.Errorf("dependencies %v are declared in Chart.yaml and missing in charts/; run 'helm dependency build' before the chart is packaged", missing)
	}
	return exactNumbers(c)
}

// measure is what may still be unpacked.
type measure struct {
	bytes int64
	files int
}

func (m *measure) archive(r io.Reader, depth int) error {
	if depth == 0 {
		return absent(v1alpha1.ReasonChartTooLarge, "the chart holds archives in archives, more than %d deep", maxNesting)
	}
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return absent(v1alpha1.ReasonChartInvalid, "not a chart archive: it is not compressed by gzip")
	}
	defer unzipped.Close()
	counted := &countReader{r: unzipped, left: &m.bytes}
	tr := tar.NewReader(counted)
	for {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return m.broken(err)
		}
		if m.files--; m.files < 0 {
			return absent(v1alpha1.ReasonChartTooLarge, "the chart has more than %d files", maxChartFiles)
		}
		if isPackedSubchart(header.Name) {
			err = m.archive(tr, depth-1)
		} else {
			_, err = io.Copy(io.Discard, tr) //nolint:gosec // countReader bounds it
		}
		if err != nil {
			return m.broken(err)
		}
	}
}

func (m *measure) broken(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return absent(v1alpha1.ReasonChartInvalid, "not a chart archive: %s", plain(err.Error()))
}

// isPackedSubchart tells whether Helm's loader unpacks the file as well: one in
// charts/ of the chart, or of a subchart of it.
func isPackedSubchart(name string) bool {
	parts := strings.Split(path.Clean(strings.ReplaceAll(name, `\`, "/")), "/")
	for parts = parts[1:]; len(parts) > 1 && parts[0] == "charts"; parts = parts[2:] {
		if len(parts) == 2 {
			return path.Ext(parts[1]) == ".tgz" && strings.IndexAny(parts[1], "_.") != 0
		}
	}
	return false
}

// countReader fails once more was read than is left.
type countReader struct {
	r    io.Reader
	left *int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if *c.left -= int64(n); *c.left < 0 {
		return 0, absent(v1alpha1.ReasonChartTooLarge, "the chart is larger unpacked than this operator takes")
	}
	return n, err
}
