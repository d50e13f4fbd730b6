#!/usr/bin/env bash
# Stops the server before the pod goes: at once and cleanly. Clients are cut off.
. "$(dirname "$0")/common.sh"
[ -s "$PGDATA/postmaster.pid" ] || exit 0
pg_ctl -D "$PGDATA" -s -m fast -w -t 100 stop || true
