// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/chartgate/chartgate/test/controlplane/supervise"
)

// auditPolicy records who did what to which object, and nothing of the
// objects themselves.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
`

// An AuditEvent is one request, as the API server recorded it.
type AuditEvent struct {
	// AuditID is the same for all events of one request.
	AuditID string `json:"auditID"`
	// Stage is ResponseComplete, ResponseStarted (long-running requests such
	// as watches have both) or Panic.
	Stage string `json:"stage"`
	// Verb is the Kubernetes verb (get, list, watch, create, update, patch,
	// delete, deletecollection), or the HTTP method in lower case for requests
	// that concern no resource.
	Verb string `json:"verb"`
	// RequestURI is the path with the query.
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	// ImpersonatedUser is who the request was made for, if not for User.
	ImpersonatedUser *struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"impersonatedUser"`
	// ObjectRef is empty for requests that concern no resource; its Name is
	// empty for lists, watches and creations with generated names.
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// RequestReceived is when the request arrived.
	RequestReceived time.Time `json:"requestReceivedTimestamp"`
}

// An AuditFilter selects events.
type AuditFilter func(AuditEvent) bool

// ByUser selects the requests of a user, impersonated or not.
func ByUser(name string) AuditFilter {
	return func(e AuditEvent) bool {
		return e.User.Username == name || e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == name
	}
}

// ByUserAgent selects the requests whose user agent starts with a prefix.
func ByUserAgent(prefix string) AuditFilter {
	return func(e AuditEvent) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// ByVerb selects the requests with one of the verbs.
func ByVerb(verbs ...string) AuditFilter {
	return func(e AuditEvent) bool { return slices.Contains(verbs, e.Verb) }
}

// ByResource selects the requests for one of the resources, named by their
// plurals; "deployments/status" names a subresource.
func ByResource(resources ...string) AuditFilter {
	return func(e AuditEvent) bool {
		name := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			name += "/" + e.ObjectRef.Subresource
		}
		return name != "" && slices.Contains(resources, name)
	}
}

// ByNamespace selects the requests for objects in a namespace.
func ByNamespace(namespace string) AuditFilter {
	return func(e AuditEvent) bool { return e.ObjectRef.Namespace == namespace }
}

// Since selects the requests that arrived at t or later.
func Since(t time.Time) AuditFilter {
	// The API server records microseconds.
	t = t.Truncate(time.Microsecond)
	return func(e AuditEvent) bool { return !e.RequestReceived.Before(t) }
}

// AuditLogPath returns the path of the audit log, JSON lines, if the options
// asked for one.
func (c *Cluster) AuditLogPath() string { return c.path("audit.log") }

// AuditEvents returns one event for each request that all filters select, in
// the order of the log. Requests that completed before the call are included;
// watches are from their start on.
func (c *Cluster) AuditEvents(ctx context.Context, filters ...AuditFilter) ([]AuditEvent, error) {
	if !c.options.AuditLog {
		return nil, errors.New("read the audit log: start the control plane with Options.AuditLog")
	}
	if err := c.flushAuditLog(ctx); err != nil {
		return nil, err
	}
	if err := c.audit.follow(c.AuditLogPath()); err != nil {
		return nil, err
	}
	return c.audit.selected(filters), nil
}

// flushAuditLog waits until the log has everything up to now: a client may see
// a response shortly before its event is written, so the event of a later
// request is awaited. A stopped API server has nothing left to write.
func (c *Cluster) flushAuditLog(ctx context.Context) error {
	c.mu.Lock()
	server := c.apiServer
	c.mu.Unlock()
	if server == nil || !server.Running() {
		return nil
	}
	marker := string(uuid.NewUUID())
	err := c.client.Discovery().RESTClient().Get().AbsPath("/version").Param("audit-marker", marker).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("mark the end of the audit log: %w", err)
	}
	return supervise.WaitFor(ctx, "the audit log", func(context.Context) error {
		if err := c.audit.follow(c.AuditLogPath()); err != nil {
			return err
		}
		if !c.audit.has(marker) {
			return errors.New("the newest request is not recorded yet")
		}
		return nil
	}, server)
}

// auditLog is what was read of an audit log so far: a test binary asks for
// events many times, and the log grows to hundreds of megabytes.
type auditLog struct {
	mu     sync.Mutex
	offset int64
	events []AuditEvent // the first of each request
	seen   map[string]bool
}

// follow reads what the file has had added since the last call.
func (l *auditLog) follow(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read the audit log %s: %w", path, err)
	}
	if err := l.read(file); err != nil {
		return fmt.Errorf("read the audit log %s: %w", path, err)
	}
	return nil
}

// read reads JSON lines. A last line that is still being written is left for the next call.
func (l *auditLog) read(log io.Reader) error {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	for lines := bufio.NewReader(log); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var event AuditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("event %q: %w", line, err)
		}
		l.offset += int64(len(line))
		if !l.seen[event.AuditID] {
			l.seen[event.AuditID] = true
			l.events = append(l.events, event)
		}
	}
}

// has tells whether one of the newest requests has the marker in its URI.
func (l *auditLog) has(marker string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, event := range slices.Backward(l.events) {
		if strings.Contains(event.RequestURI, marker) {
			return true
		}
	}
	return false
}

// selected returns the events that all filters select.
func (l *auditLog) selected(filters []AuditFilter) []AuditEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []AuditEvent
	for _, event := range l.events {
		if !slices.ContainsFunc(filters, func(filter AuditFilter) bool { return !filter(event) }) {
			out = append(out, event)
		}
	}
	return out
}
