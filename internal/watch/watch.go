// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watch reads watches.yaml, the file that maps each kind of custom
// resource to the chart it is released from.
//
// The file is a list; each entry is one Watch. The format is a superset of the
// watches.yaml of operator-sdk's Helm operators, so theirs are read unchanged.
// Reading is strict: what the format doesn't know is an error that names file,
// line and the nearest known name, and all errors of a file are found at once.
package watch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Source says where the chart of a kind comes from.
type Source string

// The sources.
const (
	// SourceBundled takes the chart from a folder or archive next to the operator. The default.
	SourceBundled Source = "Bundled"
	// SourceRepository takes the chart that each resource names from a repository.
	SourceRepository Source = "Repository"
	// SourceInline makes the chart from manifests in each resource.
	SourceInline Source = "Inline"
)

// The values of dryRunOption, which says whether a rendering that changes
// nothing may read the cluster.
const (
	DryRunClient = "client"
	DryRunServer = "server"
)

// Defaults of optional fields.
const (
	DefaultValuesPath         = "spec"
	DefaultRolloutMaxParallel = 10
	DefaultRolloutMaxFailures = 3
)

// maxFileSize bounds what is read. Thousands of watches fit.
const maxFileSize = 1 << 20

// Watch is one entry of watches.yaml.
type Watch struct {
	// GroupVersionKind of the custom resources (group, version, kind). The group may be empty.
	GroupVersionKind schema.GroupVersionKind

	// ChartPath (chart) is the chart's folder or archive, as written in the file. A relative path is
	// relative to the working directory of the process, as with operator-sdk, not to the file.
	// Set for SourceBundled, and only then.
	ChartPath string

	// Source of the chart. Default: Bundled.
	Source Source

	// Translator that turns the spec into values. Default: empty, which passes the spec through.
	Translator string

	// ValuesPath is the field of the resource that holds the values, such as spec.values. Default: spec.
	ValuesPath string

	// Gates that are added to every resource of the kind. Mandatory is always set (default: true).
	Gates []v1alpha1.Gate

	// ServiceAccount of the resource's own namespace that releases act as, where the resource names none.
	// Default: empty, the operator's own identity.
	ServiceAccount string

	// AllowCrossNamespaceRefs lets gates of the kind refer to objects of other namespaces. Default: false.
	AllowCrossNamespaceRefs bool

	// Rollout of a new chart to the resources of the kind.
	Rollout Rollout

	// OverrideValues are values that win over those of every resource of the kind: nil, bool, int64,
	// float64, string, []any and map[string]any, nested by path. They may hold secrets from the
	// environment, so they belong in no log, event or status. nil when there are none.
	//
	// A key of overrideValues is a path as in helm --set: image.tag, args[0], list[1].name; a
	// backslash makes the next character part of a name. Keys of a map further down are plain names.
	//
	// In every string $VAR and ${VAR} are replaced from the environment (empty when unset), then the
	// string is executed as a Go template with sprig functions, without the random and cryptographic
	// ones. {{ "\x24" }} writes a dollar sign.
	//
	// Types: what YAML reads as a number, boolean, null, list or map keeps its type. A string right
	// under overrideValues is read as the value of helm --set is, after its expansion: true, false,
	// null (in any case) and decimal integers without a leading zero become such, "{a,b}" becomes a
	// list, and \, \\ \{ \} lose their backslash; but a comma ends nothing. A string inside a list or
	// map stays a string. So does one tagged !!str, and a tag such as !!int gives the type of the
	// expanded text.
	OverrideValues map[string]any

	// WatchDependentResources repairs released objects as they are changed. Default: true.
	WatchDependentResources bool

	// ReconcilePeriod after which a resource is looked at again. nil: the operator's own, also for 0s.
	ReconcilePeriod *time.Duration

	// MaxConcurrentReconciles of the kind, at least 1. nil: the operator's own.
	MaxConcurrentReconciles *int

	// Selector of the resources by label. nil: all.
	Selector *metav1.LabelSelector

	// DryRunOption is empty, DryRunClient or DryRunServer. Helm's "none" reads the cluster, and is DryRunServer here.
	DryRunOption string

	// Line of the entry in the file.
	Line int
}

// Rollout bounds how a new chart reaches the resources of a kind.
type Rollout struct {
	// MaxParallel is how many resources upgrade at a time, at least 1. Default: 10.
	MaxParallel int
	// MaxFailures stops the wave when that many upgrades have failed, at least 1. Default: 3.
	MaxFailures int
}

// Known holds the names that entries may use, apart from those of the format.
type Known struct {
	// Translators by name.
	Translators []string
	// GateTypes by name.
	GateTypes []string
}

// Load reads the file at path. Its errors are those of Parse, with path as the
// file's name; an unreadable file is an *Error without a line.
func Load(path string, known Known) ([]Watch, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, known)
}

// Parse reads data, the content of a watches.yaml. name stands for the file in
// errors. The environment is read for override values.
//
// The watches are in the order of the file. An error joins an *Error for each
// problem, one a line and sorted by line; errors.As finds the first.
func Parse(name string, data []byte, known Known) ([]Watch, error) {
	p := &problems{file: name}
	if len(data) > maxFileSize {
		p.add(0, "", "larger than %d KiB; this is not a watches file", maxFileSize>>10)
		return nil, p.err()
	}
	entries := readEntries(p, data)
	v := newValidator(p, known)
	var watches []Watch
	for _, e := range entries {
		watches = append(watches, v.watch(e))
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return watches, nil
}

// readFile reads at most one byte more than Parse accepts.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path) // #nosec G304 -- the user names the file
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

func unreadable(path string, err error) error {
	msg := "cannot be read: " + err.Error()
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		msg = fmt.Sprintf("cannot be read: %v", pathErr.Err)
	}
	return &Error{File: path, Msg: msg, cause: err}
}
