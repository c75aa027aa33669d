#!/bin/bash
# down.sh WORKDIR   ends everything up.sh made, also after it was killed half way; safe to repeat.
set -u
W=$(cd "$1" 2> /dev/null && pwd) || exit 0
[ -f "$W/prefix" ] || exit 0
P=$(cat "$W/prefix")
pids=$(pgrep -f "^(nsenter|unshare) .* bash $W/node.sh")  # the first process; by name and place, so also without a pid file
[ -n "$pids" ] && kill -9 $pids        # the kernel takes the whole process namespace along
for t in $(seq 200); do [ -z "$(pgrep -f "bash $W/node.sh|$W/(containerd.toml|etcd|kubeconfig)")" ] && break; sleep 0.05; done
ip netns del "$P" 2> /dev/null
for t in $(seq 100); do
  find /sys/fs/cgroup -depth -type d -path "*/$P*" -exec rmdir {} + 2> /dev/null
  [ -z "$(find /sys/fs/cgroup -maxdepth 2 -type d -name "$P*")" ] && break
  sleep 0.1
done
rmdir /var/lib/kubelet 2> /dev/null
rm -rf "$W"
