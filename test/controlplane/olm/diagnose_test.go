// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package olm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestContainersThatDoNotRunAreDescribed(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		status corev1.ContainerStatus
		want   string
	}{
		"it runs": {corev1.ContainerStatus{Ready: true, State: running}, ""},
		"it is not ready": {
			corev1.ContainerStatus{State: running}, "main is not ready",
		},
		"it has no image": {
			corev1.ContainerStatus{State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"},
			}},
			"main waits, ErrImagePull: not found",
		},
		"it ended": {
			corev1.ContainerStatus{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no configuration"},
			}},
			"main ended with 1, Error: no configuration",
		},
		"it runs again after a failure": {
			corev1.ContainerStatus{
				Ready: true, State: running, RestartCount: 2,
				LastTerminationState: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Message: "killed\n"},
				},
			},
			"main (restart 2 after it ended with 137: killed)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.status.Name = "main"
			if got := containerLine(test.status); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
