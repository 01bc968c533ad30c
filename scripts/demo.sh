#!/usr/bin/env bash
# From nothing to a report: trains a ViT on scikit-learn's digits with the exact softmax, distils it to
# CGF-softmax, plans the polynomial, evaluates in the clear and every softmax of every test image under CKKS.
# Needs Python 3.11 and PyPI, 6 GB of disk, 3 GB of memory; minutes on 2 cores. A second call reuses what is there.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt

# the model is tiny: a second thread gains 12 % on free cores, and threads that wait for each other on busy ones lose
# tenfold. CKKS has threads of its own.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
samples=${SAMPLES:-null} # test images under CKKS; null: all of them
out=${OUT:-outputs/demo}
step() { printf '\n== %s\n' "$1"; shift; "$PY" "$@"; }

step "teacher: exact softmax" train.py experiment=digits_teacher outputs="$out"
step "student: CGF-softmax by distillation" train.py experiment=digits_student outputs="$out" ckpt="$out/digits-teacher"
step "plan: the polynomial, from training data" scripts/plan.py ckpt="$out/digits-student"
judged step "in the clear: the teacher" eval_plain.py ckpt="$out/digits-teacher"
judged step "in the clear: CGF-softmax, true exponential" eval_plain.py ckpt="$out/digits-student"
judged step "in the clear: CGF-softmax, the plan's polynomial" eval_plain.py ckpt="$out/digits-student" approx=plan
judged step "under CKKS: every softmax" eval_he.py ckpt="$out/digits-student" he=desilo he.samples="$samples"
step "report" scripts/report.py "$out"
finish
