// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"testing"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

func TestConfigMapExists(t *testing.T) {
	ref := func(namespace, name string) Ref {
		return Ref{GroupVersionKind: configMapKind, Namespace: namespace, Name: name}
	}
	reader := &fakeReader{keys: map[Ref][]string{ref("target", "config"): {"a", "b"}, ref("ns", "own"): nil, ref("other", "far"): {"a"}}}
	forbidden := &fakeReader{fails: map[string]error{"ConfigMap": &ForbiddenError{User: "system:serviceaccount:sys:op", Verb: "list", Resource: "configmaps", Namespace: "target"}}}
	cases := map[string]struct {
		gate    v1alpha1.Gate
		reader  *fakeReader
		crosses bool
		verdict Verdict
		reason  string
		texts   []string
	}{
		"it exists in the target namespace, under the gate's name": {v1alpha1.Gate{Name: "config"}, reader, false, Allow, ReasonConfigMapFound, nil},
		"it has the keys":           {v1alpha1.Gate{Name: "config", Keys: []string{"a", "b"}}, reader, false, Allow, ReasonConfigMapFound, []string{"keys a, b"}},
		"it lacks keys":             {v1alpha1.Gate{Name: "config", Keys: []string{"a", "c", "d", "c"}}, reader, false, Hold, ReasonConfigMapMissing, []string{"lacks keys c, d", `kubectl patch configmap config -n target --type merge -p '{"data":{"c":"VALUE","d":"VALUE"}}'`}},
		"it doesn't exist":          {v1alpha1.Gate{Name: "none"}, reader, false, Hold, ReasonConfigMapMissing, []string{"ConfigMap none in namespace target does not exist", "kubectl create configmap none -n target --from-literal=KEY=VALUE"}},
		"the command names keys":    {v1alpha1.Gate{Name: "none", Keys: []string{"a", "b c"}}, reader, false, Hold, ReasonConfigMapMissing, []string{"--from-literal=a=VALUE --from-literal='b c'=VALUE"}},
		"by ref in its own":         {v1alpha1.Gate{Name: "x", Ref: &v1alpha1.GateRef{Namespace: "ns", Name: "own"}}, reader, false, Allow, ReasonConfigMapFound, nil},
		"a ref that leaves home":    {v1alpha1.Gate{Name: "far", Ref: &v1alpha1.GateRef{Namespace: "other"}}, reader, false, Hold, ReasonReferenceNotAllowed, []string{"namespaces ns and target only", "allowCrossNamespaceRefs: true for App"}},
		"one that may leave":        {v1alpha1.Gate{Name: "far", Ref: &v1alpha1.GateRef{Namespace: "other"}}, reader, true, Allow, ReasonConfigMapFound, nil},
		"a ref to another kind":     {v1alpha1.Gate{Name: "x", Ref: &v1alpha1.GateRef{Kind: "Secret"}}, reader, false, Hold, ReasonInvalidGate, []string{"gate x: ref:", "not at a Secret"}},
		"an apiVersion that's none": {v1alpha1.Gate{Name: "x", Ref: &v1alpha1.GateRef{APIVersion: "a/b/c"}}, reader, false, Hold, ReasonInvalidGate, []string{"apiVersion"}},
		"a name that climbs":        {v1alpha1.Gate{Name: "x", Ref: &v1alpha1.GateRef{Name: "../secrets/x"}}, reader, false, Hold, ReasonInvalidGate, []string{"no name of an object"}},
		"forbidden":                 {v1alpha1.Gate{Name: "config"}, forbidden, false, Unknown, ReasonForbidden, []string{"system:serviceaccount:sys:op may not list configmaps in namespace target", "kubectl create role chartgate-read-configmaps -n target --verb=get,list,watch --resource=configmaps && kubectl create rolebinding chartgate-read-configmaps -n target --role=chartgate-read-configmaps --serviceaccount=sys:op"}},
		"the API server is down":    {v1alpha1.Gate{Name: "config"}, &fakeReader{fails: map[string]error{"ConfigMap": errors.New("connection refused")}}, false, Unknown, ReasonEvaluationFailed, []string{"ConfigMap config", "connection refused"}},
		"not synced":                {v1alpha1.Gate{Name: "config"}, &fakeReader{fails: map[string]error{"ConfigMap": ErrNotSynced}}, false, Unknown, ReasonNotSynced, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.gate.Type = v1alpha1.GateConfigMapExists
			ch := change(c.reader)
			ch.CrossNamespaceRefs = c.crosses
			expect(t, judge(t, ch, c.gate, Options{}), c.verdict, c.reason, c.texts...)
		})
	}
}

func TestSecretExists(t *testing.T) {
	reader := &fakeReader{keys: map[Ref][]string{{GroupVersionKind: secretKind, Namespace: "target", Name: "credentials"}: {"password"}}}
	g := func(name string, keys ...string) v1alpha1.Gate {
		return v1alpha1.Gate{Name: name, Type: v1alpha1.GateSecretExists, Keys: keys}
	}
	expect(t, judge(t, change(reader), g("credentials", "password"), Options{}), Allow, ReasonSecretFound)
	expect(t, judge(t, change(reader), g("credentials", "user"), Options{}), Hold, ReasonSecretMissing, `kubectl patch secret credentials -n target --type merge -p '{"stringData":{"user":"VALUE"}}'`)
	expect(t, judge(t, change(reader), g("none"), Options{}), Hold, ReasonSecretMissing, "kubectl create secret generic none -n target")
	cluster := &fakeReader{fails: map[string]error{"Secret": &ForbiddenError{Verb: "get", Resource: "secrets", Namespace: "target"}}}
	expect(t, judge(t, change(cluster), g("none"), Options{}), Unknown, ReasonForbidden, "the operator may not get secrets", "--serviceaccount=NAMESPACE:NAME")
}
