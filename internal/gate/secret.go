// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// secretExists passes when a Secret exists in the target namespace and has the
// keys. It learns the names of keys and never what they hold.
type secretExists struct{}

var secretKeys = keyed{
	kind: secretKind, found: ReasonSecretFound, missing: ReasonSecretMissing,
	create: "kubectl create secret generic", field: "stringData",
}

func (secretExists) Evaluate(ctx context.Context, change Change, g v1alpha1.Gate) (Decision, error) {
	return secretKeys.evaluate(ctx, change, g)
}

func (secretExists) References(change Change, g v1alpha1.Gate) []Ref {
	ref, err := fixedRef(change, g, secretKind)
	return watchable(change, ref, err)
}

func (secretExists) Check(g v1alpha1.Gate) error {
	_, err := fixedRef(Change{Namespace: anyNamespace}, g, secretKind)
	return err
}
