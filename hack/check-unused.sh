#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails while the cluster has resources of Chartgate's kinds. Removing the CRDs, or the operator,
# from under them would delete what they released, or leave them behind with a finalizer.
set -euo pipefail

[ "${FORCE:-}" = 1 ] && exit 0

# An operator of one namespace leaves the others' resources alone.
if [ -n "${ONLY_NAMESPACE:-}" ]; then
  where=(--namespace "$ONLY_NAMESPACE")
else
  where=(--all-namespaces)
fi
problem="$(mktemp)"
trap 'rm -f "$problem"' EXIT
if ! left="$("${KUBECTL:-kubectl}" get chartgate "${where[@]}" --ignore-not-found \
  --output 'jsonpath={range .items[*]}{.kind}{" "}{.metadata.namespace}{"/"}{.metadata.name}{"\n"}{end}' 2>"$problem")"; then
  # Without the CRDs there is nothing. Anything else leaves the question open.
  grep -q "doesn't have a resource type" "$problem" && exit 0
  {
    echo "Whether there are resources of Chartgate's kinds can't be told:"
    sed 's/^/  /' "$problem"
    echo "FORCE=1 goes ahead all the same."
  } >&2
  exit 1
fi
[ -z "$left" ] && exit 0

{
  echo "There are resources of Chartgate's kinds left:"
  echo
  while IFS= read -r line; do echo "  $line"; done <<< "$left"
  echo
  echo "Delete them first, while the operator runs: it uninstalls their releases."
  echo "FORCE=1 goes ahead all the same."
} >&2
exit 1
