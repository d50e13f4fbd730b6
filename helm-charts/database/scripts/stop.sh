#!/usr/bin/env bash
# Has the server stop before the pod goes: at once and cleanly. Clients are cut off.
# It is not waited for: the pod's end is, and this runs in what ends with the server.
. "$(dirname "$0")/common.sh"
[ -s "$PGDATA/postmaster.pid" ] || exit 0
pg_ctl -D "$PGDATA" -s -m fast -W stop || true
