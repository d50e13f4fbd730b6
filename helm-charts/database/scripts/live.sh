#!/usr/bin/env bash
# Is the server alive? While data is made or copied, there is none to ask.
. "$(dirname "$0")/common.sh"
[ ! -e "$WORKING" ] || exit 0
status=0
pg_isready --quiet --host localhost --port 5432 --timeout 3 || status=$?
# 1: it answers and lets nobody in yet, as while it recovers.
[ "$status" -le 1 ] || fail "PostgreSQL does not answer"
if [ "$ROLE" = standby ]; then
  # A standby that the primary can no longer feed starts anew, and copies it.
  state="$(slot_state 2> /dev/null || true)"
  [ "$state" != lost ] || fail "the primary no longer has what this standby misses"
fi
