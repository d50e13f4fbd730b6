// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func TestAResourceMaySetTheIntervalOfAllItsGates(t *testing.T) {
	gates := []v1alpha1.Gate{{Name: "a", CheckInterval: new(int32(30))}, {Name: "b"}}
	for i, g := range withInterval(gates, 7) {
		if g.Name != gates[i].Name || g.CheckInterval == nil || *g.CheckInterval != 7 {
			t.Errorf("gate %+v", g)
		}
	}
	if *gates[0].CheckInterval != 30 || gates[1].CheckInterval != nil {
		t.Errorf("the gates of the kind were changed: %+v", gates)
	}
	if got := withInterval(gates, 0); *got[0].CheckInterval != 30 || got[1].CheckInterval != nil {
		t.Errorf("gates %+v", got)
	}
}
