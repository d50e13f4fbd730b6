#!/usr/bin/env bash
# Makes the primary's data from a standby, after the primary lost its volume.
# Takes the standby's host. The primary's pod waits for it.
. "$(dirname "$0")/common.sh"
[ "$ROLE" = primary ] || fail "this is no primary: run it in the primary's pod"
[ -e "$WAITING" ] || fail "the primary has data; nothing is to be recovered"
host="${1:?which standby to copy from}"
stage="$VOLUME/.recovered"
log "copying standby $host"
copy_from "$host" "$stage"
# Recovery ends where the copy ends, on a timeline of its own, which standbys follow.
touch "$stage/recovery.signal"
rm -f "$stage/standby.signal" "$VOLUME/.credentials"
chmod 0700 "$stage"
rm -rf "$PGDATA"
mv "$stage" "$PGDATA"
sync
log "done: the primary starts"
