#!/usr/bin/env bash
# Does the server let clients in?
. "$(dirname "$0")/common.sh"
[ ! -e "$WORKING" ] || fail "data is being made or copied"
pg_isready --quiet --host localhost --port 5432 --timeout 3 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" || fail "PostgreSQL does not accept connections"
