// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// anyNamespace stands for a namespace where none is known.
const anyNamespace = "default"

// keyed judges whether an object exists and has keys.
type keyed struct {
	kind           schema.GroupVersionKind
	found, missing string // reasons
	create         string // the command that makes such an object
	field          string // the field that takes plain values
}

func (k keyed) evaluate(ctx context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	ref, err := fixedRef(change, g, k.kind)
	if err != nil {
		return Decision{}, err
	}
	if d := away(change, ref); d != nil {
		return *d, nil
	}
	keys, err := change.reader().Keys(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return Decision{Verdict: Hold, Reason: k.missing, Message: fmt.Sprintf("%s does not exist; create it: %s", ref, k.creation(ref, g.Keys))}, nil
	}
	if err != nil {
		return Decision{}, readError(ref, err)
	}
	var lacking []string
	for _, key := range g.Keys {
		if !slices.Contains(keys, key) && !slices.Contains(lacking, key) {
			lacking = append(lacking, key)
		}
	}
	if len(lacking) > 0 {
		return Decision{Verdict: Hold, Reason: k.missing, Message: fmt.Sprintf("%s lacks %s; add: %s", ref, named(lacking), k.addition(ref, lacking))}, nil
	}
	message := ref.String() + " exists"
	if len(g.Keys) > 0 {
		message += " and has " + named(g.Keys)
	}
	return Decision{Verdict: Allow, Reason: k.found, Message: message}, nil
}

func named(keys []string) string {
	if len(keys) == 1 {
		return "key " + keys[0]
	}
	return "keys " + strings.Join(keys, ", ")
}

func (k keyed) creation(ref Ref, keys []string) string {
	words := []string{k.create, shellQuote(ref.Name), "-n", shellQuote(ref.Namespace)}
	if len(keys) == 0 {
		keys = []string{"KEY"}
	}
	for _, key := range keys {
		words = append(words, "--from-literal="+shellQuote(key)+"=VALUE")
	}
	return strings.Join(words, " ")
}

func (k keyed) addition(ref Ref, keys []string) string {
	values := map[string]string{}
	for _, key := range keys {
		values[key] = "VALUE"
	}
	patch, err := json.Marshal(map[string]any{k.field: values})
	if err != nil {
		return "kubectl edit " + kubectlName(ref)
	}
	return fmt.Sprintf("kubectl patch %s --type merge -p %s", kubectlName(ref), shellQuote(string(patch)))
}
