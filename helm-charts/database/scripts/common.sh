# What the other scripts share. The environment says whose scripts they are:
#   PGDATA             where the data is, on the volume
#   PRIMARY_HOST       Service of the primary
#   POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB
set -Eeuo pipefail

VOLUME="$(dirname "$PGDATA")"
RUN="${RUN_DIRECTORY:-/var/run/postgresql}" # sockets; empty when the pod starts
WORKING="$RUN/working" # there while data is made or copied and no server answers
WAITING="$RUN/waiting" # there while a person has to decide
REPLICATION_USER=chartgate_replication

log() { printf '%s %s: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$POD_NAME" "$*"; }
fail() { log "$*" >&2; exit 1; }

# The password of the replication user follows from the superuser's, so that it
# needs no Secret of its own and changes with it.
replication_password() {
  printf 'chartgate/replication/%s/%s' "$POSTGRES_USER" "$POSTGRES_PASSWORD" | sha256sum | cut -d ' ' -f 1
}

# How a server reaches another to copy from it. The password is in a file, where
# no list of processes shows it.
replication_conninfo() {
  printf 'host=%s port=5432 user=%s passfile=%s application_name=%s connect_timeout=5 keepalives_idle=20 keepalives_interval=5 keepalives_count=3' \
    "$1" "$REPLICATION_USER" "$RUN/passfile" "$POD_NAME"
}

write_passfile() {
  (umask 077 && printf '*:*:*:%s:%s\n' "$REPLICATION_USER" "$(replication_password)" > "$RUN/passfile")
}

# Asks the server at a host, as the replication user.
ask() {
  local host="$1"
  shift
  psql --no-psqlrc --no-password --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 \
    --dbname "$(replication_conninfo "$host") dbname=postgres" "$@"
}

# The slot by which the primary keeps what a standby has yet to receive.
SLOT="$(printf '%s' "$POD_NAME" | tr -c 'a-z0-9_' '_')"

# Makes this standby's slot where it is missing, and prints its state: "lost"
# means that the primary had to let go of what it kept.
slot_state() {
  ask "$PRIMARY_HOST" --set slot="$SLOT" << 'SQL'
SELECT pg_create_physical_replication_slot(:'slot', true) WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = :'slot') \g /dev/null
SELECT coalesce(wal_status, 'new') FROM pg_replication_slots WHERE slot_name = :'slot';
SQL
}

# The system identifier tells whether two servers have the same data at their root.
identifier_here() { pg_controldata -D "$PGDATA" | sed -n 's/^Database system identifier: *//p'; }
identifier_of() { ask "$1" --command 'SELECT system_identifier FROM pg_control_system()'; }

# Copies the data of the server at a host into an empty folder. What is half
# copied is never where the data belongs.
copy_from() {
  local host="$1" to="$2"
  rm -rf "$to"
  run pg_basebackup --dbname "$(replication_conninfo "$host")" --no-password \
    --pgdata "$to" --wal-method stream --checkpoint fast
}

# Runs a command so that the pod can be stopped meanwhile.
run() {
  local status=0
  "$@" &
  child=$!
  wait "$child" || status=$?
  child=
  return "$status"
}

child=
stopped() {
  [ -z "$child" ] || kill -TERM "$child" 2> /dev/null || true
  exit 143
}
