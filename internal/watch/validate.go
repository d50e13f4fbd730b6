// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// entry is one element of the file as it is written.
type entry struct {
	Group                   string                `json:"group"`
	Version                 string                `json:"version"`
	Kind                    string                `json:"kind"`
	Chart                   string                `json:"chart"`
	Source                  string                `json:"source"`
	Translator              string                `json:"translator"`
	ValuesPath              string                `json:"valuesPath"`
	Gates                   []v1alpha1.Gate       `json:"gates"`
	ServiceAccount          string                `json:"serviceAccount"`
	AllowCrossNamespaceRefs bool                  `json:"allowCrossNamespaceRefs"`
	Rollout                 rollout               `json:"rollout"`
	OverrideValues          *yaml.Node            `json:"overrideValues"`
	WatchDependentResources *bool                 `json:"watchDependentResources"`
	ReconcilePeriod         *metav1.Duration      `json:"reconcilePeriod"`
	MaxConcurrentReconciles *int                  `json:"maxConcurrentReconciles"`
	Selector                *metav1.LabelSelector `json:"selector"`
	DryRunOption            string                `json:"dryRunOption"`
}

type rollout struct {
	MaxParallel *int `json:"maxParallel"`
	MaxFailures *int `json:"maxFailures"`
}

// validator turns entries into watches. It reports what is wrong with them and
// goes on, so that one run finds everything.
type validator struct {
	*decoder
	known     Known
	kinds     map[schema.GroupVersionKind]int // line of the entry
	overrides overrideReader
}

func newValidator(p *problems, known Known) *validator {
	return &validator{
		decoder:   newDecoder(p),
		known:     known,
		kinds:     map[schema.GroupVersionKind]int{},
		overrides: newOverrideReader(p),
	}
}

// watch reads one entry. What it returns is good only while nothing was reported.
func (v *validator) watch(n entryNode) Watch {
	e := &entry{}
	if !v.object(n.node, reflect.ValueOf(e).Elem(), "an entry") {
		return Watch{}
	}
	w := Watch{
		GroupVersionKind:        v.kind(e, n.line),
		ChartPath:               e.Chart,
		Source:                  v.source(e),
		Translator:              e.Translator,
		ValuesPath:              v.valuesPath(e),
		Gates:                   v.gates(e.Gates),
		ServiceAccount:          e.ServiceAccount,
		AllowCrossNamespaceRefs: e.AllowCrossNamespaceRefs,
		Rollout: Rollout{
			MaxParallel: v.atLeastOne("maxParallel", &e.Rollout.MaxParallel, DefaultRolloutMaxParallel),
			MaxFailures: v.atLeastOne("maxFailures", &e.Rollout.MaxFailures, DefaultRolloutMaxFailures),
		},
		WatchDependentResources: e.WatchDependentResources == nil || *e.WatchDependentResources,
		MaxConcurrentReconciles: e.MaxConcurrentReconciles,
		Selector:                e.Selector,
		DryRunOption:            v.dryRunOption(e),
		Line:                    n.line,
	}
	v.atLeastOne("maxConcurrentReconciles", &e.MaxConcurrentReconciles, 1)
	v.chart(e, w.Source, n.line)
	v.selector(e.Selector)
	v.oneOfKnown("translator", e.Translator, v.line(&e.Translator, 0), v.known.Translators)
	if e.OverrideValues != nil {
		w.OverrideValues = v.overrides.read(e.OverrideValues)
	}
	if p := e.ReconcilePeriod; p != nil && p.Duration > 0 {
		w.ReconcilePeriod = &p.Duration
	}
	if e.ServiceAccount != "" && len(validation.IsDNS1123Subdomain(e.ServiceAccount)) > 0 {
		v.add(v.line(&e.ServiceAccount, n.line), "", "%s is not the name of a ServiceAccount: "+
			"lower-case letters, digits, dashes and dots, and no namespace", quote(e.ServiceAccount))
	}
	return w
}

// require reports a field that is missing or empty, unless it was reported otherwise.
func (v *validator) require(name string, field *string, line int, hint string) bool {
	if strings.TrimSpace(*field) != "" {
		return true
	}
	if v.wrong[field] {
		return false
	}
	state := "missing"
	if _, ok := v.lines[field]; ok {
		state = "empty"
	}
	v.add(v.line(field, line), "", "%q is %s%s", name, state, hint)
	return false
}

var kindPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// kind checks group, version and kind, and that no other entry has the same.
func (v *validator) kind(e *entry, line int) schema.GroupVersionKind {
	gvk := schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
	ok := v.require("version", &e.Version, line, ", such as v1alpha1")
	ok = v.require("kind", &e.Kind, line, ", such as Guestbook") && ok
	if e.Group != "" && len(validation.IsDNS1123Subdomain(e.Group)) > 0 {
		v.add(v.line(&e.Group, line), lowerIf(e.Group, validation.IsDNS1123Subdomain),
			"%s is not an API group, which is a DNS name such as apps.example.com", quote(e.Group))
		ok = false
	}
	if e.Version != "" && len(validation.IsDNS1035Label(e.Version)) > 0 {
		v.add(v.line(&e.Version, line), lowerIf(e.Version, validation.IsDNS1035Label),
			"%s is not an API version such as v1alpha1", quote(e.Version))
		ok = false
	}
	if e.Kind != "" && !kindPattern.MatchString(e.Kind) {
		suggestion := camelCase(e.Kind)
		if !kindPattern.MatchString(suggestion) {
			suggestion = ""
		}
		v.add(v.line(&e.Kind, line), suggestion, "%s is not a kind in CamelCase such as Guestbook", quote(e.Kind))
		ok = false
	}
	if first, taken := v.kinds[gvk]; ok && taken {
		v.add(line, "", "%s is already watched by the entry on line %d", kindName(gvk), first)
	} else if ok {
		v.kinds[gvk] = line
	}
	return gvk
}

func kindName(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s %s", gvk.GroupVersion(), gvk.Kind)
}

// lowerIf returns s in lower case if that is what makes it valid.
func lowerIf(s string, check func(string) []string) string {
	if l := strings.ToLower(s); l != s && len(check(l)) == 0 {
		return l
	}
	return ""
}

// camelCase joins the words of s, each with an upper-case initial.
func camelCase(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" -_.", r) })
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

func (v *validator) source(e *entry) Source {
	if e.Source == "" {
		return SourceBundled
	}
	v.oneOfKnown("source", e.Source, v.line(&e.Source, 0), []string{string(SourceBundled), string(SourceRepository), string(SourceInline)})
	return Source(e.Source)
}

// chart checks that there is one exactly where the source needs it.
func (v *validator) chart(e *entry, source Source, line int) {
	switch source {
	case SourceBundled:
		if v.require("chart", &e.Chart, line, "; name the folder of the chart, or another source") &&
			strings.Contains(e.Chart, "://") {
			v.add(v.line(&e.Chart, line), "", "\"chart\" must be a path, not a URL; "+
				"put the chart into helm-charts/, or use source Repository, where each resource names its chart")
		}
	case SourceRepository, SourceInline:
		from := "spec.chart"
		if source == SourceInline {
			from = "the manifests"
		}
		if e.Chart != "" {
			v.add(v.line(&e.Chart, line), "", "\"chart\" is not allowed with source %s, "+
				"which takes the chart from %s of each resource; remove it", source, from)
		}
	}
}

var valuesPathPattern = regexp.MustCompile(`^spec(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)

func (v *validator) valuesPath(e *entry) string {
	p := e.ValuesPath
	if p == "" {
		return DefaultValuesPath
	}
	line := v.line(&e.ValuesPath, 0)
	if !valuesPathPattern.MatchString(p) {
		suggestion := "spec." + strings.Trim(p, ".")
		if first, rest, _ := strings.Cut(strings.Trim(p, "."), "."); closest(first, []string{"spec"}) != "" {
			suggestion = strings.TrimSuffix("spec."+rest, ".")
		}
		if !valuesPathPattern.MatchString(suggestion) {
			suggestion = ""
		}
		v.add(line, suggestion, "%s is not a path of field names that starts with spec, such as spec.values", quote(p))
		return p
	}
	for _, reserved := range []string{v1alpha1.GatesField, v1alpha1.ReleaseField} {
		if field := "spec." + reserved; p == field || strings.HasPrefix(p, field+".") {
			v.add(line, "", "%s holds Chartgate's own settings, not values", field)
		}
	}
	return p
}

func (v *validator) dryRunOption(e *entry) string {
	if e.DryRunOption == "none" {
		return DryRunServer
	}
	v.oneOfKnown("dryRunOption", e.DryRunOption, v.line(&e.DryRunOption, 0), []string{DryRunClient, DryRunServer, "none"})
	return e.DryRunOption
}

// oneOfKnown reports a value that is set and none of the names.
func (v *validator) oneOfKnown(what, value string, line int, names []string) {
	if value == "" || slices.Contains(names, value) {
		return
	}
	v.add(line, closest(value, names), "unknown %s %s (%s)", what, quote(value), knownList(names))
}

// knownList lists names for a message.
func knownList(names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	return "known: " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
}

// atLeastOne returns the number that is set, or the default.
func (v *validator) atLeastOne(name string, field **int, otherwise int) int {
	switch n := *field; {
	case n == nil:
		return otherwise
	case *n < 1:
		v.add(v.line(field, 0), "", "%q must be at least 1, not %d", name, *n)
		return otherwise
	default:
		return *n
	}
}

// selector checks each term by itself, so that each error has its line.
func (v *validator) selector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	check := func(line int, term *metav1.LabelSelector) {
		if _, err := metav1.LabelSelectorAsSelector(term); err != nil {
			v.add(line, "", "not a label selector: %v", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		line := v.lines[mapEntry{&s.MatchLabels, key}]
		check(line, &metav1.LabelSelector{MatchLabels: map[string]string{key: s.MatchLabels[key]}})
	}
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist"}
	for i := range s.MatchExpressions {
		r := &s.MatchExpressions[i]
		if v.wrong[r] {
			continue
		}
		line := v.line(r, 0)
		ok := v.require("key", &r.Key, line, " in a term of the selector")
		switch op := (*string)(&r.Operator); {
		case *op != "" && !slices.Contains(operators, *op):
			v.add(v.line(&r.Operator, line), closest(*op, operators), "%s is not an operator of a selector: use %s",
				quote(*op), oneOf(operators))
		case *op == "" && v.wrong[&r.Operator]:
		case *op == "":
			v.add(line, "", "\"operator\" is missing in a term of the selector: use %s", oneOf(operators))
		case ok && !v.wrong[&r.Values]:
			check(line, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{*r}})
		}
	}
}
