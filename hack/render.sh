#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the manifests of an overlay of config/ with an image, a namespace and a pull secret of
# the caller's choice, without an edit to a committed file.
set -euo pipefail
cd "$(dirname "$0")/.."

overlay=config/default namespace=chartgate-system image="" pull_secret=""
while [ $# -gt 0 ]; do
  case "$1" in
    --overlay) overlay="$2" ;;
    --namespace) namespace="$2" ;;
    --image) image="$2" ;;
    --pull-secret) pull_secret="$2" ;;
    *) echo "render.sh: unknown flag $1" >&2; exit 2 ;;
  esac
  shift 2
done

kustomize="${KUSTOMIZE:-kustomize}"
default_image="$(awk '$1 == "newName:" { print $2 }' config/manager/kustomization.yaml)"

# kustomize takes bases by relative path only, so the folder has to be in this tree.
mkdir -p bin
dir="$(mktemp -d bin/render.XXXXXX)"
trap 'rm -rf "$dir"' EXIT

cat > "$dir/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: $namespace
resources:
- ../../$overlay
# kustomize does not know that these kinds are in no namespace.
transformers:
- |-
  apiVersion: builtin
  kind: PatchTransformer
  metadata: {name: cluster-scoped}
  target: {kind: "ValidatingAdmissionPolicy(Binding)?"}
  patch: '[{"op": "remove", "path": "/metadata/namespace"}]'
patches:
END
if [ "$namespace" != chartgate-system ]; then
  # Cluster-scoped, and one for each operator: the name has to tell them apart.
  cat >> "$dir/kustomization.yaml" <<END
- target:
    kind: ClusterRoleBinding
    name: chartgate-metrics-auth-rolebinding
  options:
    allowNameChange: true
  patch: |-
    - op: replace
      path: /metadata/name
      value: chartgate-metrics-auth-rolebinding-$namespace
END
fi
if [ -n "$pull_secret" ]; then
  cat >> "$dir/kustomization.yaml" <<END
- target:
    kind: Deployment
    name: controller-manager
  patch: |-
    - op: add
      path: /spec/template/spec/imagePullSecrets
      value:
      - name: $pull_secret
END
fi
if [ -n "$image" ]; then
  (cd "$dir" && "$kustomize" edit set image "$default_image=$image")
fi
"$kustomize" build "$dir"
