#!/bin/bash
# down.sh WORKDIR   ends everything up.sh made, also after it was killed half way; safe to repeat.
set -u
W=$(cd "$1" 2> /dev/null && pwd) || exit 0
[ -f "$W/prefix" ] || exit 0
P=$(cat "$W/prefix")
all() { pgrep -f "bash $W/node.sh|$W/[0-9]+/(containerd.toml|data|docker.sock)"; }
pids=$(pgrep -f "^(nsenter|unshare) .* bash $W/node.sh")  # the first process of each node; by name and place, so also without a pid file
[ -n "$pids" ] && kill -9 $pids        # the kernel takes the whole process namespace along
for t in $(seq 200); do [ -z "$(all)" ] && break; sleep 0.05; done
for ns in $(ip netns list | awk '{print $1}' | grep "^$P-"); do ip netns del "$ns"; done
for t in $(seq 100); do
  find /sys/fs/cgroup -depth -type d -path "*/$P*" -exec rmdir {} + 2> /dev/null
  [ -z "$(find /sys/fs/cgroup -maxdepth 2 -type d -name "$P*")" ] && break
  sleep 0.1
done
rm -rf "$W"
