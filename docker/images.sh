#!/bin/sh
# Builds the stores' images that stampede falls back to where the official
# ones can be neither found nor pulled.
#
#   docker/images.sh              stampede/postgres:local, stampede/redis:local,
#                                 stampede/kafka:local
#   BASE=ubuntu:24.04 docker/images.sh
#   docker/images.sh stampede     the program itself: stampede/stampede:local
#
# BASE is any Debian or Ubuntu image. Where it can be neither found nor pulled,
# docker/base.sh makes one from this machine's package mirror. Each image is
# tagged with the version of what is in it as well.
set -eu
cd "$(dirname "$0")"
base=${BASE:-debian:bookworm-slim}

fail() { echo "docker/images.sh: $*" >&2; exit 1; }
docker version >/dev/null 2>&1 || \
  fail "no docker engine answers (start one: stampede doctor --fix --engine)"

have() { docker image inspect "$1" >/dev/null 2>&1; }

if ! have "$base" && ! timeout 120 docker pull -q "$base" >/dev/null 2>&1; then
  echo "docker/images.sh: $base can be neither found nor pulled"
  base=stampede/base:local
  have "$base" || ./base.sh "$base"
fi

# The build shares the machine's network: an engine whose bridge reaches
# nothing can build all the same. A proxy of apt's is the build's too.
build() { # NAME CONTEXT [ARGS...]
  name=$1 context=$2
  shift 2
  eval "$(apt-config shell proxy Acquire::http::Proxy 2>/dev/null || true)"
  docker build --network host --build-arg "BASE=$base" \
    ${proxy:+--build-arg "http_proxy=$proxy"} --label "org.stampede.base=$base" \
    -t "stampede/$name:local" "$@" "$context" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    fail "building stampede/$name failed"
  }
  version=$(docker run --rm --network none --entrypoint /bin/sh "stampede/$name:local" \
    -c 'cat /etc/stampede-version')
  docker tag "stampede/$name:local" "stampede/$name:$version"
  echo "docker/images.sh: built stampede/$name:local = stampede/$name:$version on $base"
}

# The jars come from outside: what Maven resolves with is this machine's affair.
jars() {
  command -v mvn >/dev/null || fail "mvn is missing: stampede doctor --fix --tests installs it"
  rm -rf kafka/jars
  mvn -B -q -f kafka/pom.xml -Djars="$PWD/kafka/jars" package >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    fail "resolving the jars of kafka failed"
  }
}

log=$(mktemp)
trap 'rm -rf "$log" kafka/jars' EXIT
[ $# -gt 0 ] || set -- postgres redis kafka
for name in "$@"; do
  case $name in
    postgres | redis) build "$name" "$name" ;;
    kafka) jars && build kafka kafka ;;
    stampede) jars && build stampede .. -f stampede/Dockerfile ;;
    *) fail "unknown image $name: expected postgres, redis, kafka or stampede" ;;
  esac
done
