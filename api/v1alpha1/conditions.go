// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of every Chartgate kind. Each gate adds one named after it.
const (
	// ConditionReady is True when the change that the spec asks for is released and its objects are ready.
	ConditionReady = "Ready"
	// ConditionReconciling is True while Chartgate works towards the spec (kstatus convention).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when nothing more happens until spec, chart or permissions change (kstatus convention).
	ConditionStalled = "Stalled"
	// ConditionAllGatesPassed is True when no mandatory gate holds.
	ConditionAllGatesPassed = "AllGatesPassed"
	// ConditionDrifted is True when released objects differ from the release and are not put back.
	ConditionDrifted = "Drifted"
	// ConditionRolledBack is True while a user's helm rollback is respected.
	ConditionRolledBack = "RolledBack"
	// ConditionChartStale is True while the chart is the one that was found last, since its repository can't be asked.
	ConditionChartStale = "ChartStale"
	// ConditionRolloutPaused is True while a wave of upgrades is stopped by failures.
	ConditionRolloutPaused = "RolloutPaused"

	// ConditionInitialized and the following are the conditions of helm-operator-plugins.
	ConditionInitialized    = "Initialized"
	ConditionDeployed       = "Deployed"
	ConditionReleaseFailed  = "ReleaseFailed"
	ConditionIrreconcilable = "Irreconcilable"
	ConditionPaused         = "Paused"
)

// Reasons of conditions. docs/conditions.md explains each.
const (
	ReasonGatesCheckComplete = "GatesCheckComplete"

	ReasonReleased            = "Released"
	ReasonProgressing         = "Progressing"
	ReasonObjectsNotReady     = "ObjectsNotReady"
	ReasonObjectFailed        = "ObjectFailed"
	ReasonSucceeded           = "Succeeded"
	ReasonInitialized         = "Initialized"
	ReasonNotReleased         = "NotReleased"
	ReasonNotPaused           = "NotPaused"
	ReasonSuspended           = "Suspended"
	ReasonWaitingForGates     = "WaitingForGates"
	ReasonUninstalling        = "Uninstalling"
	ReasonRetrying            = "Retrying"
	ReasonInvalidValues       = "InvalidValues"
	ReasonRenderFailed        = "RenderFailed"
	ReasonInvalidObject       = "InvalidObject"
	ReasonForbidden           = "Forbidden"
	ReasonOwnershipConflict   = "OwnershipConflict"
	ReasonReconcileFailed     = "ReconcileFailed"
	ReasonReleaseLocked       = "ReleaseLocked"
	ReasonHelmRollback        = "HelmRollback"
	ReasonDriftDetected       = "DriftDetected"
	ReasonNoDrift             = "NoDrift"
	ReasonRetriesExhausted    = "RetriesExhausted"
	ReasonInstallSuccessful   = "InstallSuccessful"
	ReasonUpgradeSuccessful   = "UpgradeSuccessful"
	ReasonUninstallSuccessful = "UninstallSuccessful"
	ReasonInstallError        = "InstallError"
	ReasonUpgradeError        = "UpgradeError"
	ReasonUninstallError      = "UninstallError"
)

// Reasons why there is no chart, or there are no values, to release. What is released is kept up meanwhile.
const (
	// ReasonInvalidChartReference: the resource does not name a chart the way it has to.
	ReasonInvalidChartReference = "InvalidChartReference"
	// ReasonInvalidResources: the manifests in the resource cannot be a chart.
	ReasonInvalidResources = "InvalidResources"
	// ReasonRepositoryNotAllowed: the operator may not use this repository.
	ReasonRepositoryNotAllowed = "RepositoryNotAllowed"
	// ReasonRepositoryUnreachable: the repository cannot be reached, or does not answer as it should. It passes.
	ReasonRepositoryUnreachable = "RepositoryUnreachable"
	// ReasonRepositoryInvalid: what answers is no chart repository.
	ReasonRepositoryInvalid = "RepositoryInvalid"
	// ReasonAuthenticationFailed: the repository refuses the credentials, or wants some.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonRepositorySecretInvalid: a Secret for the repository is missing, or lacks what it should hold.
	ReasonRepositorySecretInvalid = "RepositorySecretInvalid"
	// ReasonChartNotFound: the repository has no chart of the name.
	ReasonChartNotFound = "ChartNotFound"
	// ReasonVersionNotFound: the chart has no version that fits.
	ReasonVersionNotFound = "VersionNotFound"
	// ReasonDigestMismatch: the archive is not the one that the repository's index lists.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonVerificationFailed: the chart is not signed by a known key.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonChartInvalid: the archive holds no chart that can be released.
	ReasonChartInvalid = "ChartInvalid"
	// ReasonChartTooLarge: index or chart exceed what the operator reads.
	ReasonChartTooLarge = "ChartTooLarge"

	// ReasonValuesNotFound: a Secret or ConfigMap of spec.release.valuesFrom, or a key of it, is missing.
	ReasonValuesNotFound = "ValuesNotFound"
)

// Reasons of events. Events are sent on transitions only.
const (
	EventInitializing       = "Initializing"
	EventGatePassed         = "GatePassed"
	EventGateWaiting        = "GateWaiting"
	EventChangeHeld         = "ChangeHeld"
	EventChangeApproved     = "ChangeApproved"
	EventDeployed           = "Deployed"
	EventDeploymentFailed   = "DeploymentFailed"
	EventDriftCorrected     = "DriftCorrected"
	EventRolledBack         = "RolledBack"
	EventReleaseOrphaned    = "ReleaseOrphaned"
	EventStatusUpdateFailed = "StatusUpdateFailed"
)

// Labels and annotations that Chartgate reads or writes.
const (
	// LabelDigest on a release Secret holds the first 40 hex digits of the change's digest.
	LabelDigest = "chartgate.dev/digest"
	// LabelRevision on a release Secret holds the revision Chartgate wrote. Helm copies labels
	// on rollback and upgrade, so a mismatch with Helm's own version label means somebody else did it.
	LabelRevision = "chartgate.dev/revision"
	// LabelOwner on a release Secret holds the lower-case kind.group of the owning resource, and behind "_" its
	// namespace if the release is in another one, so that releases of the same name are told apart.
	LabelOwner = "chartgate.dev/owner"
	// LabelHolder on a pending release Secret names the operator instance that is working on it.
	LabelHolder = "chartgate.dev/holder"

	// AnnotationReconcileAt asks for a reconcile, and another try of a Stalled change, when its value changes.
	AnnotationReconcileAt = "chartgate.dev/reconcile-at"
	// AnnotationResume ends the respect for a user's helm rollback when its value changes.
	AnnotationResume = "chartgate.dev/resume"
	// AnnotationCreatedFor on a namespace says for which resource Chartgate made it: kind.group namespace/name.
	// It is never deleted by Chartgate.
	AnnotationCreatedFor = "chartgate.dev/created-for"
	// AnnotationAdopt with value "true" takes over a release that helm install made.
	AnnotationAdopt = "chartgate.dev/adopt"
)
