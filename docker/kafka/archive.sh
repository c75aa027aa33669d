#!/bin/sh
# Starts a broker once, on a folder that is removed, and has Java write its
# classes to /opt/kafka/kafka.jsa, where the official image has its own.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat /tmp/kafka/server.properties - >"$work/conf" <<EOF

node.id=1
controller.quorum.voters=1@127.0.0.1:29093
listeners=DIRECT://127.0.0.1:29092,CONTROLLER://127.0.0.1:29093
advertised.listeners=DIRECT://127.0.0.1:29092
log.dirs=$work/log
offsets.topic.replication.factor=1
EOF
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format --cluster-id c3RhbXBlZGUta2Fma2EtMQ \
  --config "$work/conf" >"$work/out" 2>&1
java -Xms512m -Xmx512m -XX:+UseG1GC -XX:ArchiveClassesAtExit=/opt/kafka/kafka.jsa \
  -Dlog4j2.configurationFile=file:/tmp/kafka/log4j2.properties \
  -cp '/opt/kafka/libs/*' kafka.Kafka "$work/conf" >"$work/out" 2>&1 &
broker=$!
for try in $(seq 600); do
  grep -q 'Kafka Server started' "$work/out" && break
  kill -0 "$broker" 2>/dev/null || break
  sleep 0.1
done
kill "$broker" || true
wait "$broker" || true
[ -s /opt/kafka/kafka.jsa ] || { tail -n 20 "$work/out" >&2; exit 1; }
