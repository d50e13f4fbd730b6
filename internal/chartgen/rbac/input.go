// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chartgate/chartgate/api/v1alpha1"
	"github.com/chartgate/chartgate/internal/chartsource"
	"github.com/chartgate/chartgate/internal/gate"
	"github.com/chartgate/chartgate/internal/translate"
	"github.com/chartgate/chartgate/internal/watch"
)

// Input is where an operator's rules come from.
type Input struct {
	// Kinds that are known.
	Kinds *Kinds
	// Samples are files of custom resources to render with, or folders of such.
	Samples []string
	// Translators that watches may name; others pass the values through.
	Translators map[string]translate.Translator
}

// LoadCRDs adds the kinds of the CRDs in a file, or in the files of a folder. Other objects are passed over.
func (k *Kinds) LoadCRDs(at string) error {
	objects, err := load(at)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := k.AddCRD(o.obj); err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
	}
	return nil
}

// Watches works out the roles of the operator that has the watches.yaml.
func (in Input) Watches(file string) ([]File, []Message, error) {
	watches, err := watch.Load(file, in.known())
	if err != nil {
		return nil, nil, err
	}
	samples, err := in.load()
	if err != nil {
		return nil, nil, err
	}
	var (
		watched  []Watched
		messages []Message
	)
	for _, w := range watches {
		gk := w.GroupVersionKind.GroupKind()
		of := Watched{Kind: gk, Chart: filepath.ToSlash(filepath.Clean(w.ChartPath))}
		if w.Source == watch.SourceBundled {
			chrt, err := loadChart(w.ChartPath)
			if err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %w", file, w.Line, err)
			}
			opts := ChartOptions{Path: of.Chart, Overrides: w.OverrideValues, Kinds: in.Kinds}
			if opts.Samples, err = samples.of(in.translator(chrt, w.Translator, w.ValuesPath), func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().GroupKind() == gk }); err != nil {
				return nil, nil, err
			}
			if of.Rights, err = Chart(chrt, opts); err != nil {
				return nil, nil, err
			}
		} else {
			messages = append(messages, Message{File: file, Line: w.Line, Note: true, Text: "charts of " + gk.Kind + " are chosen at run time, and add no rules"})
		}
		watched = append(watched, of)
	}
	messages = append(messages, samples.unused()...)
	files, more, err := Operator(watched, in.Kinds)
	return files, append(messages, more...), err
}

// Chart works out the rules that releases of one chart take, for its author.
func (in Input) Chart(at string) ([]byte, []Message, error) {
	chrt, err := loadChart(at)
	if err != nil {
		return nil, nil, err
	}
	samples, err := in.load()
	if err != nil {
		return nil, nil, err
	}
	opts := ChartOptions{Path: filepath.ToSlash(filepath.Clean(at)), Kinds: in.Kinds}
	if opts.Samples, err = samples.of(in.translator(chrt, "", watch.DefaultValuesPath), func(*unstructured.Unstructured) bool { return true }); err != nil {
		return nil, nil, err
	}
	found, err := Chart(chrt, opts)
	if err != nil {
		return nil, nil, err
	}
	return found.Rules(opts.Path), found.Messages, nil
}

// known are the names that watches.yaml may use.
func (in Input) known() watch.Known {
	k := watch.Known{Translators: sortedKeys(in.Translators)}
	for t := range gate.Evaluators(gate.Options{}) {
		k.GateTypes = append(k.GateTypes, string(t))
	}
	slices.Sort(k.GateTypes)
	return k
}

func loadChart(at string) (*chart.Chart, error) {
	bundled, err := chartsource.LoadBundled(at, func(*chart.Chart) string { return "" })
	if err != nil {
		return nil, err
	}
	return bundled.Chart().Chart, nil
}

// sampleFile is one object of a sample.
type sampleFile struct {
	file string
	obj  *unstructured.Unstructured
	used bool
	// named is true for one of a file that was named, false for one found in a folder.
	named bool
}

type sampleFiles []*sampleFile

func (in Input) load() (sampleFiles, error) {
	var all sampleFiles
	for _, at := range in.Samples {
		objects, err := load(at)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// load reads the objects of a YAML file, or of those in a folder.
func load(at string) (sampleFiles, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	files, named := []string{at}, true
	if info.IsDir() {
		files, named = nil, false
		for _, pattern := range []string{"*.yaml", "*.yml"} {
			found, err := filepath.Glob(filepath.Join(at, pattern))
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
		slices.Sort(files)
	}
	var all sampleFiles
	for _, file := range files {
		data, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if err != nil {
			return nil, err
		}
		objects, err := decodeAll(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, obj := range objects {
			all = append(all, &sampleFile{file: filepath.ToSlash(file), obj: obj, named: named})
		}
	}
	return all, nil
}

// translator turns custom resources into values, as the operator does.
func (in Input) translator(chrt *chart.Chart, name, valuesPath string) translate.Translator {
	if t, ok := in.Translators[name]; ok {
		return t
	}
	pass := translate.PassThrough{Path: valuesPath}
	reserved := []string{v1alpha1.GatesField, v1alpha1.ReleaseField}
	if valuesPath == watch.DefaultValuesPath && len(chartsource.ReservedKeys(chrt, reserved...)) == 0 {
		pass.Reserved = reserved
	}
	return pass
}

// of returns the samples of a chart: custom resources that fit, and files of plain values.
func (s sampleFiles) of(translator translate.Translator, fits func(*unstructured.Unstructured) bool) ([]Sample, error) {
	var out []Sample
	for _, f := range s {
		if !fits(f.obj) {
			continue
		}
		f.used = true
		values := f.obj.Object
		if f.obj.GetKind() != "" {
			var err error
			if values, err = translator.Translate(f.obj); err != nil {
				return nil, fmt.Errorf("%s: %w", f.file, err)
			}
		}
		out = append(out, Sample{Name: f.file, Values: values})
	}
	return out, nil
}

// unused tells of samples in named files that are of no kind of watches.yaml.
func (s sampleFiles) unused() []Message {
	var out []Message
	for _, f := range s {
		if !f.used && f.named {
			out = append(out, Message{File: f.file, Text: strings.TrimSpace("the sample is of no kind of watches.yaml: " + f.obj.GetKind())})
		}
	}
	return out
}
