// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/chartgate/chartgate/api/v1alpha1"
)

const (
	// maxMessage bounds a message, so that the status stays small whatever a chart or the API server says.
	maxMessage = 1024
	// maxHistory bounds the list of revisions.
	maxHistory = 20
)

// Builder makes the next status of a resource from its last one and from what
// happened. It reads no clock and no cluster.
type Builder struct {
	status     v1alpha1.CommonStatus
	own        map[string]any
	generation int64
	now        metav1.Time
}

// NewBuilder starts from the last status, for the generation that is reconciled.
func NewBuilder(last v1alpha1.CommonStatus, generation int64, now time.Time) *Builder {
	b := &Builder{status: *last.DeepCopy(), generation: generation, now: metav1.NewTime(now.Truncate(time.Second))}
	b.status.ObservedGeneration = generation
	return b
}

// Status returns what was built.
func (b *Builder) Status() v1alpha1.CommonStatus { return *b.status.DeepCopy() }

// Own sets fields of the status that only this kind has, as JSON; nil takes one
// away. Those that were set before stay.
func (b *Builder) Own(fields map[string]any) *Builder {
	if b.own == nil {
		b.own = make(map[string]any, len(fields))
	}
	maps.Copy(b.own, fields)
	return b
}

// OwnFields returns what Own set.
func (b *Builder) OwnFields() map[string]any { return b.own }

// Condition sets a condition. Its transition time moves only with its status.
func (b *Builder) Condition(conditionType string, status metav1.ConditionStatus, reason, message string) *Builder {
	meta.SetStatusCondition(&b.status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: shorten(message),
		ObservedGeneration: b.generation, LastTransitionTime: b.transition(conditionType, status),
	})
	slices.SortStableFunc(b.status.Conditions, b.compareConditions)
	return b
}

func (b *Builder) transition(conditionType string, status metav1.ConditionStatus) metav1.Time {
	if c := meta.FindStatusCondition(b.status.Conditions, conditionType); c != nil && c.Status == status {
		return c.LastTransitionTime
	}
	return b.now
}

// Phase sets phase and message.
func (b *Builder) Phase(phase v1alpha1.Phase, message string) *Builder {
	b.status.Phase, b.status.Message = phase, shorten(message)
	return b
}

// ReleaseAt says where the release is, or will be.
func (b *Builder) ReleaseAt(namespace, name string) *Builder {
	b.status.ReleaseNamespace, b.status.ReleaseName = namespace, name
	return b
}

// Release is a stored release as the status shows it.
type Release struct {
	Revision   int64
	Chart      string
	Version    string
	AppVersion string
}

// Deployed notes the deployed release and the digest of the change it is.
func (b *Builder) Deployed(r Release, digest string) *Builder {
	b.status.Revision = r.Revision
	b.status.Chart = r.Chart
	b.status.LastDeployedVersion = r.Version
	b.status.AppVersion = r.AppVersion
	b.status.AppliedDigest = digest
	return b
}

// NotDeployed notes that there is no release. The digest is that of the change
// that is to be released again, where it was applied before; else empty.
func (b *Builder) NotDeployed(digest string) *Builder {
	return b.Deployed(Release{}, digest)
}

// Wrote adds revisions that Chartgate wrote or is about to write, with the
// digests of their payloads. Later ones that were on record are no more.
func (b *Builder) Wrote(entries ...v1alpha1.HistoryEntry) *Builder {
	for _, e := range entries {
		b.status.History = slices.DeleteFunc(b.status.History, func(h v1alpha1.HistoryEntry) bool { return h.Revision >= e.Revision })
		b.status.History = append(b.status.History, e)
	}
	if extra := len(b.status.History) - maxHistory; extra > 0 {
		b.status.History = slices.Delete(b.status.History, 0, extra)
	}
	return b
}

// Pending notes the change that waits; it keeps since when the same one has been waiting.
func (b *Builder) Pending(digest string) *Builder {
	if b.status.Pending == nil || b.status.Pending.Digest != digest {
		b.status.Pending = &v1alpha1.PendingChange{Digest: digest, Since: b.now}
		b.status.Failures = 0
	}
	return b
}

// Failed counts a failed try of the pending change.
func (b *Builder) Failed() *Builder {
	b.status.Failures++
	return b
}

// Settled notes that no change waits.
func (b *Builder) Settled() *Builder {
	b.status.Pending = nil
	b.status.Failures = 0
	return b
}

// HandledReconcileAt notes which request for a reconcile was acted on.
func (b *Builder) HandledReconcileAt(value string) *Builder {
	b.status.LastHandledReconcileAt = value
	return b
}

// HandledResume notes which request to resume was acted on.
func (b *Builder) HandledResume(value string) *Builder {
	b.status.LastHandledResume = value
	return b
}

// Drop removes a condition.
func (b *Builder) Drop(conditionType string) *Builder {
	meta.RemoveStatusCondition(&b.status.Conditions, conditionType)
	return b
}

// Progressing sets the conditions for work that goes on.
func (b *Builder) Progressing(reason, message string) *Builder {
	return b.
		Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message).
		Condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message).
		Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "")
}

// Stalled sets the conditions for work that cannot go on by itself.
func (b *Builder) Stalled(reason, message string) *Builder {
	return b.
		Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message).
		Condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ConditionStalled, "").
		Condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// Ready sets the conditions for a release whose objects are ready.
func (b *Builder) Ready(message string) *Builder {
	return b.
		Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, message).
		Condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSucceeded, "").
		Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonSucceeded, "")
}

// Unready sets the conditions for a release whose objects are not ready.
func (b *Builder) Unready(failed bool, message string) *Builder {
	if failed {
		return b.
			Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonObjectFailed, message).
			Condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonObjectFailed, "").
			Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonObjectFailed, "")
	}
	return b.
		Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonObjectsNotReady, message).
		Condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonObjectsNotReady, message).
		Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "")
}

// pluginReasons are the reasons of the library's conditions where it gives none.
var pluginReasons = map[string]map[metav1.ConditionStatus]string{
	v1alpha1.ConditionInitialized:    {metav1.ConditionTrue: v1alpha1.ReasonInitialized},
	v1alpha1.ConditionDeployed:       {metav1.ConditionTrue: v1alpha1.ReasonReleased, metav1.ConditionFalse: v1alpha1.ReasonNotReleased},
	v1alpha1.ConditionReleaseFailed:  {metav1.ConditionFalse: v1alpha1.ReasonSucceeded},
	v1alpha1.ConditionIrreconcilable: {metav1.ConditionFalse: v1alpha1.ReasonSucceeded},
	v1alpha1.ConditionPaused:         {metav1.ConditionFalse: v1alpha1.ReasonNotPaused},
}

// Plugin takes over the conditions that helm-operator-plugins recorded. Its
// message of Deployed is the chart's NOTES, which may hold secrets, so it is
// replaced. Conditions it does not own are passed over.
func (b *Builder) Plugin(conditions []metav1.Condition) *Builder {
	for _, c := range conditions {
		reasons, ours := pluginReasons[c.Type]
		if !ours {
			continue
		}
		if c.Reason == "" {
			c.Reason = reasons[c.Status]
		}
		if c.Reason == "" {
			c.Reason = string(c.Status)
		}
		if c.Type == v1alpha1.ConditionDeployed {
			c.Message = ""
			if c.Status == metav1.ConditionTrue && b.status.ReleaseName != "" {
				c.Message = fmt.Sprintf("release %s is deployed", b.status.ReleaseName)
			}
		}
		b.Condition(c.Type, c.Status, c.Reason, c.Message)
	}
	return b
}

// order in which people read conditions; gates come after.
var order = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionAllGatesPassed,
	v1alpha1.ConditionDrifted, v1alpha1.ConditionRolledBack, v1alpha1.ConditionRolloutPaused, v1alpha1.ConditionChartStale, v1alpha1.ConditionInitialized,
	v1alpha1.ConditionDeployed, v1alpha1.ConditionReleaseFailed, v1alpha1.ConditionIrreconcilable, v1alpha1.ConditionPaused,
}

func conditionOrder(conditionType string) int {
	if i := slices.Index(order, conditionType); i >= 0 {
		return i
	}
	return len(order)
}

// shorten cuts a message at a character boundary.
func shorten(s string) string { return cut(s, maxMessage) }

// cut shortens a text to the size in bytes.
func cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	end := size - len("…")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
