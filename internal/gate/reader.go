// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

// Ref names an object that a gate looks at. It is comparable.
type Ref struct {
	// GroupVersionKind of the object.
	GroupVersionKind schema.GroupVersionKind
	// Namespace of the object. It has no meaning for a cluster-scoped kind.
	Namespace string
	// Name of the object.
	Name string
	// Approves is empty, but for approvals: the kind of the custom resource that is
	// approved. Approvals are read by the operator itself, whoever serves the resource.
	// Of kind ReleaseApproval all are meant that target the resource called Name.
	Approves string
}

// String is the object as messages name it.
func (r Ref) String() string {
	s := r.GroupVersionKind.Kind + " " + r.Name
	if r.Namespace != "" {
		s += " in namespace " + r.Namespace
	}
	return s
}

// The kinds that gate types look at.
var (
	configMapKind       = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secretKind          = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	releaseApprovalKind = v1alpha1.GroupVersion.WithKind(v1alpha1.KindReleaseApproval)
)

// Kind is what the API server says of a kind.
type Kind struct {
	// Resource is the plural under which the kind is served.
	Resource string
	// Namespaced is false for cluster-scoped kinds.
	Namespaced bool
}

// Reader reads the objects that gates look at. What it returns is not to be
// changed. Errors are ErrNotFound, ErrNotSynced, *ForbiddenError or *NoKindError,
// perhaps wrapped; any other means that the read failed.
type Reader interface {
	// Kind returns what the API server says of the kind.
	Kind(ctx context.Context, gvk schema.GroupVersionKind) (Kind, error)
	// Object returns the object, without managed fields. It is never asked for a Secret.
	Object(ctx context.Context, ref Ref) (*unstructured.Unstructured, error)
	// Keys returns the names of the keys of a ConfigMap or Secret, in order.
	Keys(ctx context.Context, ref Ref) ([]string, error)
	// Approvals returns the ReleaseApprovals that target the kind and name, of whatever group.
	Approvals(ctx context.Context, ref Ref) ([]v1alpha1.ReleaseApproval, error)
}

// ErrNotFound says that an object does not exist.
var ErrNotFound = errors.New("does not exist")

// ErrNotSynced says that a watch is not established yet. The change is looked at
// again as soon as it is.
var ErrNotSynced = errors.New("its watch is not established yet")

// NoKindError says that the API server does not serve a kind.
type NoKindError struct {
	GroupVersionKind schema.GroupVersionKind
}

func (e *NoKindError) Error() string {
	return fmt.Sprintf("the cluster serves no kind %s in %s; install what provides it, or correct the gate's ref",
		e.GroupVersionKind.Kind, e.GroupVersionKind.GroupVersion())
}

// ForbiddenError says that RBAC lacks a rule.
type ForbiddenError struct {
	// User that asked. May be empty where it is not known.
	User string
	// Verb that is missing, such as get.
	Verb string
	// Group and Resource that it is missing on.
	Group, Resource string
	// Namespace in which it is missing. Empty: in the whole cluster.
	Namespace string
}

// Error names the missing rule and prints the commands that add it.
func (e *ForbiddenError) Error() string {
	resource := e.Resource
	if e.Group != "" {
		resource += "." + e.Group
	}
	user, where := e.User, "in namespace "+e.Namespace
	if user == "" {
		user = "the operator"
	}
	if e.Namespace == "" {
		where = "in the whole cluster"
	}
	return fmt.Sprintf("%s may not %s %s %s; grant it: %s", user, e.Verb, resource, where, e.grant(resource))
}

func (e *ForbiddenError) grant(resource string) string {
	subject := "--user=" + shellQuote(e.User)
	if sa, ok := strings.CutPrefix(e.User, "system:serviceaccount:"); ok {
		subject = "--serviceaccount=" + sa
	}
	if e.User == "" {
		subject = "--serviceaccount=NAMESPACE:NAME"
	}
	name := "chartgate-read-" + e.Resource
	if e.Namespace == "" {
		return fmt.Sprintf("kubectl create clusterrole %[1]s --verb=get,list,watch --resource=%[2]s && kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s %[3]s",
			name, resource, subject)
	}
	return fmt.Sprintf("kubectl create role %[1]s -n %[4]s --verb=get,list,watch --resource=%[2]s && kubectl create rolebinding %[1]s -n %[4]s --role=%[1]s %[3]s",
		name, resource, subject, shellQuote(e.Namespace))
}

// shellQuote quotes a word for a shell, where that is needed.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@=,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// noReader reads nothing.
type noReader struct{}

var errNoReader = errors.New("the operator gave the gates nothing to read with; this is a fault of the operator")

func (noReader) Kind(context.Context, schema.GroupVersionKind) (Kind, error) {
	return Kind{}, errNoReader
}

func (noReader) Object(context.Context, Ref) (*unstructured.Unstructured, error) {
	return nil, errNoReader
}

func (noReader) Keys(context.Context, Ref) ([]string, error) { return nil, errNoReader }

func (noReader) Approvals(context.Context, Ref) ([]v1alpha1.ReleaseApproval, error) {
	return nil, errNoReader
}
