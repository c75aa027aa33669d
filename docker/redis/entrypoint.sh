#!/bin/sh
# Becomes the given command as user redis, whose the data folder is.
set -eu
if [ "$(id -u)" = 0 ]; then
  chown -R redis:redis /data
  exec setpriv --reuid=redis --regid=redis --init-groups "$@"
fi
exec "$@"
