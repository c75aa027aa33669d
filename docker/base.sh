#!/bin/sh
# Makes a base image from the distribution's package mirror, for machines whose
# engine reaches no registry. Needs Debian or Ubuntu, root, debootstrap and a
# running engine. The mirror is the one that this machine's apt uses.
#
#   docker/base.sh [IMAGE]        default: stampede/base:local
set -eu
image=${1:-stampede/base:local}

fail() { echo "docker/base.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "debootstrap needs root"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install -y debootstrap"
docker version >/dev/null 2>&1 || fail "no docker engine answers"

. /etc/os-release
suite=${VERSION_CODENAME:?"docker/base.sh: /etc/os-release names no release"}
mirror=$(apt-get indextargets --format '$(REPO_URI)' \
  'Created-By: Packages' "Codename: $suite" 'Component: main' | head -n 1)
[ -n "$mirror" ] || fail "apt has no mirror for $suite main; run apt-get update"

# debootstrap reads http_proxy only; apt may know a proxy of its own.
eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
[ -z "${http_proxy:-}" ] || export http_proxy

work=$(mktemp -d)
tree=$work/root
trap 'rm -rf "$work"' EXIT
echo "docker/base.sh: making $image: $suite from this machine's package mirror"
debootstrap --variant=minbase "$suite" "$tree" "$mirror" >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  fail "debootstrap failed"
}
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
tar -C "$tree" -c . | docker import --change 'CMD ["/bin/sh"]' - "$image" >/dev/null
echo "docker/base.sh: made $image"
