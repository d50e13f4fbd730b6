#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# Builds the image from two copies of the sources, in folders of other names and by another umask, and
# fails unless both have the same digest. COLD=1 compiles everything anew for the second.
set -euo pipefail
cd "$(dirname "$0")/.."

version="v${VERSION:-$(cat VERSION)}" arch="$(go env GOARCH)"
tmp="$(mktemp -d)"
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT

mkdir -p "$tmp/one" "$tmp/another/place"
git ls-files -z --cached --others --exclude-standard -- api cmd helm-charts hack internal go.mod go.sum watches.yaml VERSION |
  while IFS= read -r -d '' file; do if [ -e "$file" ]; then printf '%s\0' "$file"; fi; done |
  tar --create --null --files-from=- | tar --extract --directory "$tmp/one"
(umask 077 && tar --create --directory "$tmp/one" . | tar --extract --touch --no-same-permissions --directory "$tmp/another/place")

go run ./hack/image --source "$tmp/one" --version "$version" --output "$tmp/first"
if [ "${COLD:-}" = 1 ]; then export GOCACHE="$tmp/cache"; fi
(umask 077 && go run ./hack/image --source "$tmp/another/place" --version "$version" --output "$tmp/second")

if ! cmp "$tmp/first/digest" "$tmp/second/digest"; then
  echo "The image is not reproducible. The files that differ:" >&2
  for build in first second; do
    (cd "$tmp/$build/linux-$arch" && find . -type f -exec sha256sum {} + | sort -k 2) > "$tmp/$build.sums"
  done
  diff "$tmp/first.sums" "$tmp/second.sums" >&2 || true
  exit 1
fi
echo "Two builds, one digest: $(cat "$tmp/first/digest")"
