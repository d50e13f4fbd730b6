// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/chartgate/chartgate/hack/ociimage"
	"github.com/chartgate/chartgate/test/controlplane"
	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// pushWeb builds the image of testdata/web and returns its reference for Pods.
func pushWeb(t *testing.T, cluster *Cluster) string {
	t.Helper()
	ctx := testContext(t, 2*time.Minute)
	program := filepath.Join(t.TempDir(), "web")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./testdata/web")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the web server: %v\n%s", err, output)
	}
	image, err := cluster.Push(ctx, "web:v1", ociimage.Spec{
		Entrypoint: []string{"/web"},
		User:       "65532:65532",
		Layers:     []ociimage.Layer{{"/web": {Source: program, Mode: 0o755}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func webPod(name, image string, arguments ...string) *corev1.Pod {
	root := true
	grace := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			SecurityContext:               &corev1.PodSecurityContext{RunAsNonRoot: &root},
			Containers:                    []corev1.Container{{Name: "web", Image: image, Args: arguments}},
		},
	}
}

// in creates and watches objects of one namespace.
type in struct {
	*Cluster
	t         *testing.T
	namespace string
}

func (n in) create(ctx context.Context, pod *corev1.Pod) {
	n.t.Helper()
	if _, err := n.client.CoreV1().Pods(n.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

func (n in) await(ctx context.Context, name string, phase corev1.PodPhase) *corev1.Pod {
	n.t.Helper()
	var pod *corev1.Pod
	err := supervise.WaitFor(ctx, "Pod "+name, func(ctx context.Context) (err error) {
		if pod, err = n.client.CoreV1().Pods(n.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Status.Phase != phase {
			return fmt.Errorf("it is %s, not %s: %v", pod.Status.Phase, phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return pod
}

func (n in) logs(ctx context.Context, name string) string {
	n.t.Helper()
	text, err := n.client.CoreV1().Pods(n.namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		n.t.Errorf("logs of Pod %s: %v", name, err)
	}
	return string(text)
}

// exec runs a command in a Pod with kubectl, through the API server.
func (n in) exec(ctx context.Context, pod string, command ...string) (string, error) {
	programs, err := controlplane.Resolve(ctx, os.Stderr, controlplane.Kubectl)
	if err != nil {
		n.t.Fatal(err)
	}
	arguments := append([]string{"--kubeconfig", n.KubeconfigPath(), "--namespace", n.namespace, "--cache-dir", n.t.TempDir(), "exec", pod, "--"}, command...)
	output, err := exec.CommandContext(ctx, programs[controlplane.Kubectl], arguments...).CombinedOutput()
	return string(output), err
}

func TestPodsReachEachOtherAndTheAPI(t *testing.T) {
	cluster := shared.get(t)
	ctx := testContext(t, 3*time.Minute)
	image := pushWeb(t, cluster)
	n := in{cluster, t, cluster.Namespace(t)}

	n.create(ctx, webPod("web", image, "serve"))
	_, err := cluster.client.CoreV1().Services(n.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.await(ctx, "web", corev1.PodRunning)

	for name, test := range map[string]struct {
		url, want string
		host      bool
	}{
		"by-short-name": {url: "http://web/short", want: "hello from web"},
		"by-full-name":  {url: "http://web." + n.namespace + ".svc.cluster.local/full", want: "hello from web"},
		"from-the-node": {url: "http://web/node", want: "hello from web", host: true},
		"the-api":       {url: "https://kubernetes.default.svc/version", want: "gitVersion"},
	} {
		pod := webPod(name, image, "get", test.url)
		pod.Spec.HostNetwork, pod.Spec.DNSPolicy = test.host, corev1.DNSClusterFirstWithHostNet
		n.create(ctx, pod)
		n.await(ctx, name, corev1.PodSucceeded)
		if got := n.logs(ctx, name); !strings.Contains(got, "200 OK") || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want 200 OK and %q", test.url, got, test.want)
		}
	}
	if got := n.logs(ctx, "web"); !strings.Contains(got, "asked for /short") || !strings.Contains(got, "asked for /full") {
		t.Errorf("the web server's log = %q", got)
	}
	// A Pod that calls its own Service is a case of its own for the rules. The
	// short name is its own as well.
	if got, err := n.exec(ctx, "web", "/web", "get", "http://web."+n.namespace+".svc.cluster.local/self"); err != nil || !strings.Contains(got, "hello from web") {
		t.Errorf("exec in the web server's Pod: %v: %q", err, got)
	}
	if got, err := n.exec(ctx, "web", "/web", "nonsense"); err == nil || !strings.Contains(got, "usage") {
		t.Errorf("exec of a command that fails: %v: %q", err, got)
	}
}

func TestVolumesKeepDataAndGoWithTheirClaims(t *testing.T) {
	cluster := shared.get(t)
	ctx := testContext(t, 3*time.Minute)
	image := pushWeb(t, cluster)
	n := in{cluster, t, cluster.Namespace(t)}
	claims := cluster.client.CoreV1().PersistentVolumeClaims(n.namespace)
	claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ // the default StorageClass
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := webPod("writer", image, "write", "/data/file", "kept")
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	n.create(ctx, pod)
	n.await(ctx, "writer", corev1.PodSucceeded)

	if claim, err = claims.Get(ctx, claim.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	folder := cluster.path("volumes", claim.Spec.VolumeName)
	if content, err := os.ReadFile(filepath.Join(folder, "file")); err != nil || string(content) != "kept" {
		t.Errorf("the volume's file: %v: %q", err, content)
	}
	if err := cluster.client.CoreV1().Pods(n.namespace).Delete(ctx, "writer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = supervise.WaitFor(ctx, "the end of the volume", func(ctx context.Context) error {
		_, err := cluster.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it still exists"), err)
		}
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(errors.New("its folder is left"), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
