// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// configMapExists passes when a ConfigMap exists in the target namespace and has the keys.
type configMapExists struct{}

var configMapKeys = keyed{
	kind: configMapKind, found: ReasonConfigMapFound, missing: ReasonConfigMapMissing,
	create: "kubectl create configmap", field: "data",
}

func (configMapExists) Evaluate(ctx context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	return configMapKeys.evaluate(ctx, change, g)
}

func (configMapExists) References(change Change, g v1alpha1.Gate) []Ref {
	ref, err := fixedRef(change, g, configMapKind)
	return watchable(change, ref, err)
}

func (configMapExists) Check(g v1alpha1.Gate) error {
	_, err := fixedRef(Change{Namespace: anyNamespace}, g, configMapKind)
	return err
}
