#!/usr/bin/env bash
# A Slurm of one node with two slots on this machine, for tests of the launcher: bash scripts/cluster/slurm.sh install | start | stop
# install takes Debian's slurm-wlm and munge (root). start makes a key, a configuration and a state of their own in SLURM_HERE
# (default: /tmp/slurm_here), listens on loopback alone, and prints the lines that a shell needs to use it; stop ends it.
# The partition is named 'here'. There is no accounting: sacct knows nothing, and a job's end is told by its files.
set -euo pipefail
here=${SLURM_HERE:-/tmp/slurm_here}
bin=$PATH:/usr/sbin:/sbin

configure() {
    local host memory
    host=$(hostname -s)
    memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.8)}' /proc/meminfo)
    mkdir -p "$here"/{state,spool,log,run}
    chmod 711 "$here"
    cat > "$here/slurm.conf" <<CONF
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${SLURM_PORT:-16817}
SlurmdPort=$((${SLURM_PORT:-16817} + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$here/run/munge.socket
StateSaveLocation=$here/state
SlurmdSpoolDir=$here/spool
SlurmctldPidFile=$here/run/slurmctld.pid
SlurmdPidFile=$here/run/slurmd.pid
SlurmctldLogFile=$here/log/slurmctld.log
SlurmdLogFile=$here/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=$memory State=UNKNOWN
PartitionName=here Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
}

start() {
    PATH=$bin command -v slurmctld > /dev/null || { echo "error: there is no Slurm here: $0 install" >&2; exit 2; }
    configure
    [ -f "$here/munge.key" ] || head -c 1024 /dev/urandom > "$here/munge.key"
    chmod 600 "$here/munge.key"
    PATH=$bin munged --force --key-file="$here/munge.key" --socket="$here/run/munge.socket" \
        --pid-file="$here/run/munged.pid" --log-file="$here/log/munged.log" --seed-file="$here/run/munge.seed"
    PATH=$bin SLURM_CONF=$here/slurm.conf slurmctld
    PATH=$bin SLURM_CONF=$here/slurm.conf slurmd
    for _ in $(seq 60); do
        if SLURM_CONF=$here/slurm.conf sinfo --noheader --format %T 2> /dev/null | grep -q idle; then
            echo "export SLURM_CONF=$here/slurm.conf"
            return
        fi
        sleep 0.5
    done
    echo "error: the node did not come up: $here/log" >&2
    stop
    exit 1
}

stop() {
    for name in slurmd slurmctld munged; do
        if [ -f "$here/run/$name.pid" ]; then kill "$(cat "$here/run/$name.pid")" 2> /dev/null || true; fi
    done
}

case ${1:-} in
    install) apt-get install --yes --no-install-recommends slurm-wlm munge ;;
    start) start ;;
    stop) stop ;;
    *) echo "error: one of install, start and stop is needed, and '${1:-}' was given" >&2; exit 2 ;;
esac
