#!/usr/bin/env bash
# Dumps the database onto the backup volume and keeps the newest dumps. With
# RESTORE=<file> or RESTORE=latest it restores a dump into the database instead,
# with RESTORE=list it lists what there is.
. "$(dirname "$0")/common.sh"
trap stopped TERM INT
export PGHOST="$PRIMARY_HOST" PGPORT=5432 PGUSER="$POSTGRES_USER" PGPASSWORD="$POSTGRES_PASSWORD" PGCONNECT_TIMEOUT=10
BACKUPS=/backups

# Newest first. Names hold the time, so their order is that of time.
dumps() { (cd "$BACKUPS" && ls -1 -- *.dump 2> /dev/null || true) | sort -r; }

backup() {
  local name file old
  name="$(date -u +%Y%m%dT%H%M%SZ)"
  file="$BACKUPS/$name"
  rm -f "$BACKUPS"/*.partial
  log "dumping database $POSTGRES_DB"
  # Roles are no part of a database's dump.
  run pg_dumpall --no-password --roles-only --no-role-passwords --file "$file.roles.sql.partial"
  run pg_dump --no-password --format custom --file "$file.dump.partial" --dbname "$POSTGRES_DB"
  pg_restore --list "$file.dump.partial" > /dev/null # a dump that can't be read is none
  sync
  mv "$file.roles.sql.partial" "$file.roles.sql"
  mv "$file.dump.partial" "$file.dump"
  dumps | tail -n "+$((RETENTION + 1))" | while read -r old; do
    rm -f "$BACKUPS/$old" "$BACKUPS/${old%.dump}.roles.sql"
    log "removed $old"
  done
  sync
  log "made $name.dump, $(stat -c %s "$file.dump") bytes"
}

restore() {
  local file="$1"
  [ "$file" != latest ] || file="$(dumps | head -n 1)"
  [ -n "$file" ] || fail "there is no dump to restore"
  file="$(basename "$file")"
  [ -f "$BACKUPS/$file" ] || fail "there is no dump $file: RESTORE=list shows what there is"
  log "restoring $file into database $POSTGRES_DB"
  run pg_restore --no-password --clean --if-exists --exit-on-error --single-transaction --no-owner --dbname "$POSTGRES_DB" "$BACKUPS/$file"
  log "restored $file"
}

case "${RESTORE:-}" in
  '') backup ;;
  list) dumps ;;
  *) restore "$RESTORE" ;;
esac
