// Copyright The Chartgate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release does everything Helm: it renders charts, decides by digest
// whether a release has to change, installs, upgrades, repairs and uninstalls
// it, and stores it as the helm CLI expects.
//
// The entry is Engine.Session: a Session serves one custom resource during one
// reconcile, implements the action client that helm-operator-plugins calls,
// and keeps what happened for the caller to report.
package release
