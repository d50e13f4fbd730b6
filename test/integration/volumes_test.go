// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/chartgate/chartgate/test/harness"
)

// growingClass is a StorageClass whose volumes can be expanded, and fixedClass one whose can't.
func growingClass(e *harness.Env) string { return storageClass(e, "grows", true) }
func fixedClass(e *harness.Env) string   { return storageClass(e, "fixed", false) }

func storageClass(e *harness.Env, name string, expands bool) string {
	e.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "test.dev/volumes", AllowVolumeExpansion: &expands}
	if err := e.Client.Create(e.Ctx, class); err != nil && !apierrors.IsAlreadyExists(err) {
		e.Fatal(err)
	}
	return name
}

// provideVolumes makes a volume for every claim of the test's namespace, as a provisioner does.
func provideVolumes(e *harness.Env) {
	e.Helper()
	w, err := e.Kube.CoreV1().PersistentVolumeClaims(e.Namespace).Watch(e.Ctx, metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
			if !ok || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
				continue
			}
			if err := e.Client.Create(e.Ctx, volumeFor(claim)); err != nil && !apierrors.IsAlreadyExists(err) && e.Ctx.Err() == nil {
				e.Errorf("volume for claim %s: %v", claim.Name, err)
			}
		}
	}()
	e.Cleanup(func() {
		w.Stop()
		<-done
		err := e.Client.DeleteAllOf(context.WithoutCancel(e.Ctx), &corev1.PersistentVolume{}, client.MatchingLabels{"for": e.Namespace})
		if err != nil {
			e.Errorf("delete the volumes: %v", err)
		}
	})
}

func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(claim.UID), Labels: map[string]string{"for": claim.Namespace}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")},
			AccessModes:                   claim.Spec.AccessModes,
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}
	if claim.Spec.StorageClassName != nil {
		pv.Spec.StorageClassName = *claim.Spec.StorageClassName
	}
	return pv
}
