// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	provisionerName   = "chartgate.io/host-path"
	provisionedByKey  = "pv.kubernetes.io/provisioned-by"
	defaultClassKey   = "storageclass.kubernetes.io/is-default-class"
	provisionerResync = 5 * time.Second // when what failed is tried again
)

// A provisioner makes a volume for every claim of the StorageClass, a folder on
// the node, and removes it with its data when it is released.
type provisioner struct {
	client kubernetes.Interface
	dir    string
	log    *os.File
	ctx    context.Context // ends with the provisioner
	cancel context.CancelFunc
	done   func() // waits for its end
}

func (c *Cluster) startProvisioner(ctx context.Context) error {
	policy, binding, expands := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate, true // a folder has no size
	_, err := c.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: StorageClass, Annotations: map[string]string{defaultClassKey: "true"}},
		Provisioner:       provisionerName,
		ReclaimPolicy:     &policy,
		VolumeBindingMode: &binding,

		AllowVolumeExpansion: &expands,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the StorageClass %s: %w", StorageClass, err)
	}
	p := &provisioner{client: c.client, dir: c.path("volumes")}
	if p.log, err = os.Create(c.path("provisioner.log")); err != nil {
		return fmt.Errorf("create the log of volumes: %w", err)
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactory(p.client, provisionerResync)
	p.done = factory.Shutdown
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	c.provisioner = p
	for informer, handle := range map[cache.SharedIndexInformer]func(any){
		claims:  func(object any) { p.report(p.provision(object)) },
		volumes: func(object any) { p.report(p.reclaim(object)) },
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    handle,
			UpdateFunc: func(_, object any) { handle(object) },
		})
		if err != nil {
			return fmt.Errorf("watch claims and volumes: %w", err)
		}
	}
	factory.Start(p.ctx.Done())
	return nil
}

func (p *provisioner) stop() {
	p.cancel()
	p.done()
	_ = p.log.Close()
}

// report logs what failed. It is tried again at the next resync.
func (p *provisioner) report(err error) {
	if err != nil && p.ctx.Err() == nil {
		fmt.Fprintf(p.log, "%s %v\n", time.Now().Format(time.RFC3339), err)
	}
}

// provision makes the volume of a claim that needs one.
func (p *provisioner) provision(object any) error {
	claim, ok := object.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != StorageClass ||
		claim.Spec.VolumeName != "" || claim.Spec.Selector != nil || claim.DeletionTimestamp != nil {
		return nil
	}
	name := "pvc-" + string(claim.UID)
	dir := filepath.Join(p.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the folder of volume %s: %w", name, err)
	}
	// Pods don't run as root, and their fsGroup means nothing to a folder.
	if err := os.Chmod(dir, 0o777); err != nil {
		return fmt.Errorf("open the folder of volume %s: %w", name, err)
	}
	kind := corev1.HostPathDirectory
	_, err := p.client.CoreV1().PersistentVolumes().Create(p.ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedByKey: provisionerName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              StorageClass,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &kind},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the volume of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// reclaim removes a volume whose claim is gone.
func (p *provisioner) reclaim(object any) error {
	volume, ok := object.(*corev1.PersistentVolume)
	if !ok || volume.Annotations[provisionedByKey] != provisionerName || volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	if err := os.RemoveAll(filepath.Join(p.dir, volume.Name)); err != nil {
		return fmt.Errorf("remove the data of volume %s: %w", volume.Name, err)
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(p.ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the volume %s: %w", volume.Name, err)
	}
	return nil
}
