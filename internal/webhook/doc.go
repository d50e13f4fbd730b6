// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook is the admission webhook that vouches for who made a
// ReleaseApproval, where the ValidatingAdmissionPolicy of config/policy can't be
// installed: OLM ships no policies, but webhooks.
//
// Both are the same rule, and give the same answer to every request: whoever
// creates an approval must be the approver that it names, and must hold the verb
// "approve" on the resource that it is about. [Examine] is that rule without any
// request, [Approvals] asks the API server what it leaves open, and [NewServer]
// serves it.
package webhook
