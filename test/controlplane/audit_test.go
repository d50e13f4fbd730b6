// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAuditLogCountsTheRequestsOfAClient(t *testing.T) {
	cluster := Shared(t)
	ctx := testContext(t, time.Minute)
	namespace := cluster.Namespace(t)
	config, err := cluster.User("counted", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "counter/1"
	client := clientFor(t, config)
	begin := time.Now()
	for range 7 {
		if _, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
		t.Log(err) // the object may not be there yet, the request is counted anyway
	}

	for name, test := range map[string]struct {
		filters []AuditFilter
		want    int
	}{
		"all requests of the user":       {[]AuditFilter{ByUser("counted")}, 8},
		"all requests of the user agent": {[]AuditFilter{ByUserAgent("counter/")}, 8},
		"one verb":                       {[]AuditFilter{ByUser("counted"), ByVerb("list")}, 7},
		"several verbs":                  {[]AuditFilter{ByUser("counted"), ByVerb("get", "list")}, 8},
		"one resource and namespace":     {[]AuditFilter{ByUser("counted"), ByResource("configmaps"), ByNamespace(namespace)}, 8},
		"another resource":               {[]AuditFilter{ByUser("counted"), ByResource("secrets")}, 0},
		"since the first request":        {[]AuditFilter{ByUser("counted"), Since(begin)}, 8},
		"since now":                      {[]AuditFilter{ByUser("counted"), Since(time.Now())}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			events, err := cluster.AuditEvents(ctx, test.filters...)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) != test.want {
				t.Errorf("got %d events, want %d: %+v", len(events), test.want, events)
			}
		})
	}
}

func TestReadAuditEvents(t *testing.T) {
	const started = `{"auditID":"1","stage":"ResponseStarted","verb":"watch","objectRef":{"resource":"pods"}}` + "\n"
	const complete = `{"auditID":"1","stage":"ResponseComplete","verb":"watch","objectRef":{"resource":"pods"}}` + "\n"
	const status = `{"auditID":"2","verb":"patch","objectRef":{"resource":"deployments","subresource":"status"}}` + "\n"
	for name, test := range map[string]struct {
		log     string
		filter  AuditFilter
		want    int
		wantErr bool
	}{
		"a watch with two stages is one request":      {log: started + complete, filter: ByVerb("watch"), want: 1},
		"a line that is being written is left out":    {log: started + status[:20], filter: ByVerb("watch", "patch"), want: 1},
		"a subresource is not its resource":           {log: status, filter: ByResource("deployments"), want: 0},
		"a subresource is named after a slash":        {log: status, filter: ByResource("deployments/status"), want: 1},
		"no user is impersonated by the empty name":   {log: status, filter: ByUser("x"), want: 0},
		"an impersonated user counts":                 {log: `{"auditID":"3","impersonatedUser":{"username":"x"}}` + "\n", filter: ByUser("x"), want: 1},
		"a line that is no event is an error":         {log: "x\n", filter: ByUser("x"), wantErr: true},
		"requests for no resource match no resources": {log: `{"auditID":"4","verb":"get"}` + "\n", filter: ByResource(""), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log auditLog
			err := log.read(strings.NewReader(test.log))
			events := log.selected([]AuditFilter{test.filter})
			if (err != nil) != test.wantErr {
				t.Fatalf("error %v, want one: %v", err, test.wantErr)
			}
			if len(events) != test.want {
				t.Errorf("got %d events, want %d", len(events), test.want)
			}
		})
	}
}

func TestAuditEventsNeedTheOption(t *testing.T) {
	if _, err := (&Cluster{}).AuditEvents(t.Context()); err == nil || !strings.Contains(err.Error(), "AuditLog") {
		t.Errorf("got %v, want an error that names the option", err)
	}
}
