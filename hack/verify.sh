#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# Regenerates everything that is generated and committed, and fails if that changed a file. It
# compares the tree before and after, so it works in the middle of a change as well.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT

# tree prints the id of a git tree of the files as they are now, untracked ones included. Index and
# objects go to a folder of its own, so that the repository is not touched.
mkdir -p "$tmp/objects"
objects="$(git rev-parse --path-format=absolute --git-path objects)"
scratch_git() {
  GIT_INDEX_FILE="$tmp/index" GIT_OBJECT_DIRECTORY="$tmp/objects" \
    GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" git "$@"
}
tree() {
  scratch_git add --all . && scratch_git write-tree
}

failed=0
before="$(tree)"
env -u MAKEFLAGS -u MAKEOVERRIDES -u VERSION -u IMG -u OVERLAY -u NAMESPACE -u PULL_SECRET -u BUNDLE_DIR -u USE_IMAGE_DIGESTS -u SOURCE_DATE_EPOCH \
  make --no-print-directory generate manifests build-installer bundle
after="$(tree)"
if [ "$before" != "$after" ]; then
  failed=1
  echo
  echo "These files are not what their sources generate; commit them as they are now:"
  scratch_git --no-pager diff --name-status "$before" "$after"
  echo
  scratch_git --no-pager diff --stat -p "$before" "$after" | sed -n 1,200p
fi

go mod verify || failed=1
if ! go mod tidy -diff; then
  failed=1
  echo "go.mod and go.sum are not tidy: run go mod tidy."
fi

# In CI nothing is under way: whatever git status lists was left there by a build or a test.
if [ -n "${CI:-}" ] && [ -n "$(git status --porcelain)" ]; then
  failed=1
  echo
  echo "The tree is dirty:"
  git status --porcelain
fi

[ "$failed" = 0 ] && echo "verify: everything generated is up to date."
exit "$failed"
