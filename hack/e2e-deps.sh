#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0

# Installs what a cluster with a real node takes besides what is built from Go modules: a container
# runtime, network plugins, and the tools that set a node up. Debian and its relatives, as root.
# It does nothing if all is there.
set -euo pipefail

usage() {
  cat <<USAGE
Usage: hack/e2e-deps.sh [--with-buildah]

Installs the Debian packages of a test cluster with a real node, as far as they are missing.
  --with-buildah  buildah as well, which builds the Dockerfile
USAGE
}

# A program or file that tells that a package is there, and the package.
wanted=(
  containerd:containerd
  ctr:containerd
  containerd-shim-runc-v2:containerd
  runc:runc
  /usr/lib/cni/bridge:containernetworking-plugins
  /usr/lib/cni/portmap:containernetworking-plugins
  iptables:iptables # the portmap plugin and kubelet run it
  nft:nftables      # kube-proxy
  ip:iproute2
  mount:mount
  busybox:busybox-static # OLM's image copies files with it
)

for argument in "$@"; do
  case "$argument" in
    --with-buildah) wanted+=(buildah:buildah) ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
done

PATH="$PATH:/usr/sbin:/sbin"
packages=()
for entry in "${wanted[@]}"; do
  what="${entry%%:*}" package="${entry#*:}"
  command -v "$what" >/dev/null && continue
  case " ${packages[*]} " in
    *" $package "*) ;;
    *) packages+=("$package") ;;
  esac
done
[ "${#packages[@]}" -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "Missing: ${packages[*]} (by their names in Debian). Install them with this system's package manager." >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "Missing: ${packages[*]}. Install them as root: hack/e2e-deps.sh" >&2
  exit 1
fi

# The packages must not start services: the tests run a containerd of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi

echo "Installing ${packages[*]}"
log="$(mktemp)"
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
if ! { "${apt[@]}" update && "${apt[@]}" install --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "apt-get failed: see above. Its whole output is in $log." >&2
  exit 1
fi
rm -f "$log"
