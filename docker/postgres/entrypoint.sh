#!/bin/sh
# Makes a cluster in PGDATA if there is none, then becomes the given command as
# user postgres. Everyone who reaches the port may log in: it is published on
# the loopback address of one machine, for the length of a run.
set -eu
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA"
  chown postgres:postgres "$PGDATA" "$(dirname "$PGDATA")"
  chmod 0700 "$PGDATA"
  exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb -D "$PGDATA" -U "$POSTGRES_USER" --auth=trust --encoding=UTF8 --locale=C --no-sync
  echo 'host all all all trust' >> "$PGDATA/pg_hba.conf"
  if [ "${POSTGRES_DB:-postgres}" != postgres ]; then
    echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres >/dev/null
  fi
  sync -f "$PGDATA"
fi
exec "$@"
