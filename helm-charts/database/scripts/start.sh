#!/usr/bin/env bash
# Starts the server of a pod: the primary, or a standby that follows it. Which of
# the two a pod is never changes, so there are never two primaries.
#
# Data is made or copied beside its place and moved there when it is whole:
# however often this is interrupted, it begins again with what was whole before.
. "$(dirname "$0")/common.sh"
trap stopped TERM INT

STAGE="$VOLUME/.new"
CREDENTIALS="$VOLUME/.credentials" # digest of what the roles were last set from
SUPERUSER="$VOLUME/.superuser"     # who made the data, and so can set the roles

check_version() {
  local have want="${PG_VERSION_WANTED%%.*}"
  have="$(postgres --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')"
  [ "$have" = "$want" ] || fail "the image has PostgreSQL $have and the Database asks for version $PG_VERSION_WANTED: set image or version so that they agree"
  if [ -s "$PGDATA/PG_VERSION" ] && [ "$(cat "$PGDATA/PG_VERSION")" != "$have" ]; then
    fail "the volume holds data of PostgreSQL $(cat "$PGDATA/PG_VERSION"), which PostgreSQL $have can't read: set version back, or make another Database and restore a dump into it"
  fi
}

# Options of every server. What they don't set is PostgreSQL's default, or what
# ALTER SYSTEM says. WAL is bounded by the volume, so that a standby that is gone
# for long does not fill it.
options() {
  local megabytes wal kept
  megabytes="$(($(df -k --output=size "$VOLUME" | tail -n 1) / 1024))"
  wal=$((megabytes / 10)) kept=$((megabytes / 5))
  [ "$wal" -le 1024 ] || wal=1024
  [ "$wal" -ge 64 ] || wal=64
  [ "$kept" -ge 128 ] || kept=128
  options=(
    -c "listen_addresses=*" -c "unix_socket_directories=$RUN" -c unix_socket_permissions=0700
    -c "hba_file=$(dirname "$0")/pg_hba.conf" -c password_encryption=scram-sha-256
    -c wal_level=replica -c hot_standby=on -c max_wal_senders=32 -c max_replication_slots=32
    -c "min_wal_size=$((wal < 80 ? 32 : 80))MB" -c "max_wal_size=${wal}MB" -c "max_slot_wal_keep_size=${kept}MB"
  )
}

move_into_place() {
  chmod 0700 "$STAGE"
  rm -rf "$PGDATA"
  mv "$STAGE" "$PGDATA"
  sync
}

# Prints the host of a standby that has data, if there is one. An empty volume then
# means that the primary lost its own, and must not begin anew: applications would
# find nothing, and the standbys could never follow.
standby_with_data() {
  local host i status
  for i in 0 1 2 3 4 5 6 7 8; do
    host="${STANDBY_HOST/ORDINAL/$i}" status=0
    pg_isready --quiet --timeout 3 --host "$host" --port 5432 || status=$?
    if [ "$status" -le 1 ]; then
      printf '%s' "$host"
      return 0
    fi
  done
  return 1
}

wait_for_decision() {
  touch "$WAITING"
  log "the primary's volume is empty, but standby $1 has data. Nothing is overwritten. To make the primary from the standby: kubectl exec $POD_NAME -c postgres -- bash $(dirname "$0")/recover.sh $1"
  until [ -s "$PGDATA/PG_VERSION" ]; do
    run sleep 2
  done
  rm -f "$WAITING"
}

# Makes a database by the image's own entry point, which also runs what is in
# /docker-entrypoint-initdb.d, as images made from the official one need it.
initialize() {
  local pid
  log "making a new database"
  rm -rf "$STAGE"
  PGDATA="$STAGE" POSTGRES_INITDB_ARGS="${POSTGRES_INITDB_ARGS:---data-checksums}" \
    docker-entrypoint.sh postgres -c listen_addresses= &
  pid=$! child=$!
  # The entry point starts servers of its own meanwhile; in the end it becomes the server.
  until [ "$(head -n 1 "$STAGE/postmaster.pid" 2> /dev/null)" = "$pid" ] && pg_isready --quiet --host "$RUN"; do
    kill -0 "$pid" 2> /dev/null || fail "the database could not be made: the lines above say why"
    sleep 0.2
  done
  kill -INT "$pid"
  wait "$pid" || fail "the new database did not stop cleanly"
  child=
}

# Sets the roles' passwords from the Secret, and makes the database where it is
# missing: after the Secret was changed, and at the first start.
set_roles() {
  local want superuser
  want="$(printf '%s/%s/%s' "$POSTGRES_USER" "$POSTGRES_PASSWORD" "$POSTGRES_DB" | sha256sum | cut -d ' ' -f 1)"
  [ "$(cat "$CREDENTIALS" 2> /dev/null)" != "$want" ] || return 0
  log "setting roles and passwords from the Secret"
  pg_ctl -D "$PGDATA" -s -w -t 86400 -o "$(printf '%q ' "${options[@]}" -c listen_addresses=)" start
  superuser="$(cat "$SUPERUSER" 2> /dev/null || printf '%s' "$POSTGRES_USER")"
  local psql=(psql --no-psqlrc --quiet --tuples-only --no-align --host "$RUN" --username "$superuser" --dbname postgres --set ON_ERROR_STOP=1)
  until [ "$("${psql[@]}" --command 'SELECT pg_is_in_recovery()')" = f ]; do
    sleep 0.2 # made from a standby by recover.sh: it is not the primary yet
  done
  REPLICATION_PASSWORD="$(replication_password)" "${psql[@]}" \
    --set user="$POSTGRES_USER" --set database="$POSTGRES_DB" --set replication="$REPLICATION_USER" << 'SQL' > /dev/null
\set password `printenv POSTGRES_PASSWORD`
\set replication_password `printenv REPLICATION_PASSWORD`
SET log_statement = 'none';
SET log_min_error_statement = 'panic';
SELECT format('CREATE ROLE %I', :'user') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'user') \gexec
ALTER ROLE :"user" WITH SUPERUSER LOGIN PASSWORD :'password';
SELECT format('CREATE ROLE %I', :'replication') WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'replication') \gexec
ALTER ROLE :"replication" WITH REPLICATION LOGIN PASSWORD :'replication_password';
SELECT format('CREATE DATABASE %I OWNER %I', :'database', :'user') WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec
SQL
  pg_ctl -D "$PGDATA" -s -w -t 86400 -m fast stop
  printf '%s' "$POSTGRES_USER" > "$SUPERUSER"
  printf '%s' "$want" > "$CREDENTIALS"
  sync
}

primary() {
  local host
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if host="$(standby_with_data)"; then
      wait_for_decision "$host"
    else
      initialize
      # Standbys that started with this pod had time to come up.
      if host="$(standby_with_data)"; then
        rm -rf "$STAGE"
        wait_for_decision "$host"
      else
        rm -f "$CREDENTIALS"
        printf '%s' "$POSTGRES_USER" > "$SUPERUSER"
        move_into_place
      fi
    fi
  fi
  chmod 0700 "$PGDATA"
  rm -f "$PGDATA/standby.signal"
  options
  options+=(-c restore_command=/bin/false) # for recover.sh: recovery ends with what was copied
  set_roles
}

drop_slot() {
  ask "$PRIMARY_HOST" --set slot="$SLOT" << 'SQL'
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = :'slot' AND NOT active \g /dev/null
SQL
}

# Waits for the primary as long as it takes: without it there is nothing to copy.
bootstrap() {
  local told=
  until [ -s "$PGDATA/PG_VERSION" ]; do
    if slot_state > /dev/null 2> "$RUN/error"; then
      log "copying the primary"
      if copy_from "$PRIMARY_HOST" "$STAGE"; then
        touch "$STAGE/standby.signal"
        move_into_place
        return
      fi
    elif [ -z "$told" ]; then
      log "waiting for the primary: $(tail -n 1 "$RUN/error")"
      told=yes
    fi
    run sleep 2
  done
}

standby() {
  local state
  if [ -s "$PGDATA/PG_VERSION" ] && state="$(slot_state 2> /dev/null)" && [ "$state" = lost ]; then
    if [ "$(identifier_of "$PRIMARY_HOST")" = "$(identifier_here)" ]; then
      log "this standby was away too long and the primary no longer has what it missed: copying anew"
      drop_slot
      rm -rf "$PGDATA"
    else
      log "the primary has other data than this standby, which keeps its own: see docs/database.md"
    fi
  fi
  bootstrap
  chmod 0700 "$PGDATA"
  touch "$PGDATA/standby.signal"
  options
  options+=(-c "primary_conninfo=$(replication_conninfo "$PRIMARY_HOST")" -c "primary_slot_name=$SLOT" -c recovery_target_timeline=latest)
}

# Runs the server until it ends. It is not the first process of the container, which
# inherits what other processes leave behind: a server takes the end of such a one, as
# of a probe that was cut off, for a crash of its own, and throws everybody out.
serve() {
  local status=0
  docker-entrypoint.sh postgres "${options[@]}" &
  child=$!
  trap 'kill -INT "$child" 2> /dev/null || true' TERM INT
  until wait "$child"; do
    status=$?
    kill -0 "$child" 2> /dev/null || return "$status" # else a signal ended the waiting
  done
}

touch "$WORKING"
write_passfile
check_version
rm -f "$PGDATA/postmaster.pid" # of a container that is gone: its number may be somebody else's here
case "$ROLE" in
  primary) primary ;;
  standby) standby ;;
  *) fail "role $ROLE is not known" ;;
esac
rm -f "$WORKING" "$RUN/error"
log "starting PostgreSQL as $ROLE"
serve
