#!/bin/bash
# run.sh SERVER QUEUE RTT_MS OFFSET: one run of networkQuality; as root in a machine in virtual time, beside what README.md lists.
server=$1 queue=$2 rtt=$3 offset=$4 rate=20mbit
ulimit -n 100000
here=$(dirname "$(readlink -f "$0")"); root=$here/www
mkdir -p /run/results
half=$(echo "scale=3; $rtt/2" | bc)
for n in s r c; do ip netns add $n; ip -n $n link set lo up; ip netns exec $n sh -c 'echo cubic >/proc/sys/net/ipv4/tcp_congestion_control; echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6' ; done
ip link add name u0 netns s type veth peer name a0 netns r
ip link add name b0 netns r type veth peer name d0 netns c
for d in s:u0 r:a0 r:b0 c:d0; do ip -n ${d%:*} link set ${d#*:} gso_max_segs 1; done
ip -n s addr add 198.18.70.1/24 dev u0; ip -n r addr add 198.18.70.254/24 dev a0; ip -n r addr add 198.18.71.254/24 dev b0; ip -n c addr add 198.18.71.1/24 dev d0
for d in s:u0 r:a0 r:b0 c:d0; do ip -n ${d%:*} link set ${d#*:} up; done
ip -n s route add default via 198.18.70.254; ip -n c route add default via 198.18.71.254
ip netns exec r sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
case $queue in
 fq_codel) tc -n s qdisc add dev u0 root handle 1: htb default 1; tc -n s class add dev u0 parent 1: classid 1:1 htb rate $rate burst 1600 cburst 1600; tc -n s qdisc add dev u0 parent 1:1 handle 10: fq_codel;;
 cake) tc -n s qdisc add dev u0 root cake bandwidth $rate;;
esac
tc -n r qdisc add dev b0 root netem limit 1000 rate $rate delay ${half}ms
tc -n r qdisc add dev a0 root netem limit 10000 delay ${half}ms
tc -n c qdisc add dev d0 root handle 1: htb default 1; tc -n c class add dev d0 parent 1: classid 1:1 htb rate $rate burst 1600 cburst 1600; tc -n c qdisc add dev d0 parent 1:1 handle 10: fq_codel
cd $root
[ $server = nginx-lowat ] && ip netns exec s sh -c 'echo 16384 >/proc/sys/net/ipv4/tcp_notsent_lowat'
case $server in
 weir) STATE_DIRECTORY=/run/weir-state ip netns exec s weir serve $root --listen 198.18.70.1:8443 --cert $here/cert.pem --key $here/key.pem --shaping paced --uplink $rate --responsiveness >/run/results/server 2>&1 & ;;
 nginx|nginx-lowat) ip netns exec s $here/discard & ip netns exec s /usr/sbin/nginx -c $here/nginx.conf -g 'daemon off;' >/run/results/server 2>&1 & ;;
esac
sleep 2
sleep 0.$offset
cd /run/results
ip netns exec c curl -sk https://198.18.70.1:8443/.well-known/nq >config.json
ip netns exec c timeout 180 networkQuality -url https://198.18.70.1:8443/.well-known/nq -insecure-skip-verify -logger-filename /run/results/log.csv
echo "status $?"
tc -n s -s qdisc show dev u0 >qdisc
kill %1 %2 2>/dev/null
exit 0
