#!/usr/bin/env bash
# Copyright The Chartgate Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Makes a database in an empty PGDATA and becomes the server, as the entry point
# of the official image does: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB,
# POSTGRES_INITDB_ARGS, and scripts in /docker-entrypoint-initdb.d.
set -Eeuo pipefail

[ "${1:-postgres}" = postgres ] || exec "$@"
shift || true

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  : "${POSTGRES_PASSWORD:?has to be set where there is no database yet}"
  user="${POSTGRES_USER:-postgres}"
  database="${POSTGRES_DB:-$user}"
  mkdir -p "$PGDATA"
  chmod 0700 "$PGDATA"
  password="$(mktemp)"
  printf '%s\n' "$POSTGRES_PASSWORD" > "$password"
  # shellcheck disable=SC2086 # arguments, as many as there are
  initdb --pgdata "$PGDATA" --username "$user" --pwfile "$password" ${POSTGRES_INITDB_ARGS:-}
  rm -f "$password"
  printf '\nhost all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"

  pg_ctl -D "$PGDATA" -o "$(printf '%q ' "$@" -c listen_addresses=)" -w start
  sql=(psql --no-psqlrc --username "$user" --set ON_ERROR_STOP=1)
  if [ -z "$("${sql[@]}" --dbname postgres --tuples-only --set db="$database" <<< "SELECT 1 FROM pg_database WHERE datname = :'db'")" ]; then
    "${sql[@]}" --dbname postgres --set db="$database" <<< 'CREATE DATABASE :"db"'
  fi
  for script in /docker-entrypoint-initdb.d/*; do
    case "$script" in
      *.sh) bash "$script" ;;
      *.sql) "${sql[@]}" --dbname "$database" --file "$script" ;;
    esac
  done
  pg_ctl -D "$PGDATA" -m fast -w stop
fi

exec postgres "$@"
