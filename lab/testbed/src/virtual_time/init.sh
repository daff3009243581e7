#!/bin/bash
# The first program of a machine in virtual time: mounts what programs expect, runs one command, keeps its exit status, ends the
# machine. The root file system is the host's, under a layer in memory. What the command kept in /run/results goes to the host's
# folder at the end: to files there a change of owner would be the host's. The clock moves only while everything waits, so `beat`
# grows by a line each virtual second.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
here=$(readlink -f "${0%/*}")
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t tmpfs run /run && mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/machine /run/layer /run/root
mount -t hostfs machine -o "$here" /run/machine
mount -t tmpfs layer /run/layer && mkdir /run/layer/upper /run/layer/work
root=/run/root
mount -t overlay root -o lowerdir=/,upperdir=/run/layer/upper,workdir=/run/layer/work $root
for folder in proc sys dev sys/fs/cgroup sys/fs/bpf; do mount --bind /$folder $root/$folder; done
mkdir -p $root/dev/shm $root/dev/pts
mount -t tmpfs shm $root/dev/shm
mount -t devpts pts $root/dev/pts
mount -t tmpfs run $root/run
ip link set lo up
(while :; do echo >>/run/machine/beat; sleep 1; done) &
chroot $root /bin/bash "$here/command" </dev/null >/run/machine/out 2>/run/machine/err
status=$?
if [ -d $root/run/results ]; then cp -r $root/run/results/. /run/machine/results/ || status=1; fi
echo $status >/run/machine/status
sync
echo o >/proc/sysrq-trigger
sleep 1000
