#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the Dockerfile with buildah (Debian: hack/e2e-deps.sh --with-buildah) and fails unless that
# gives the same files and settings as the image that make image builds without an engine. Root only.
set -euo pipefail
cd "$(dirname "$0")/.."

version="v${VERSION:-$(cat VERSION)}" arch="$(go env GOARCH)"

# Storage of its own: what this machine's buildah keeps is not touched.
tmp="$(mktemp -d)"
trap 'rm -rf "$tmp"' EXIT
buildah() {
  command buildah --root "$tmp/storage" --runroot "$tmp/run" --storage-driver vfs "$@"
}

go run ./hack/image --version "$version" --arch "$arch" --stage-only >/dev/null
buildah bud --isolation chroot --build-arg TARGETARCH="$arch" --build-arg VERSION="$version" --tag chartgate .
buildah push --quiet chartgate "docker-archive:$tmp/image.tar:chartgate:$version"
go run ./hack/image --version "$version" --arch "$arch" --compare-with "$tmp/image.tar"
