#!/usr/bin/env bash
# From nothing to a report: trains a ViT on scikit-learn's digits with the exact softmax, distils it to
# CGF-softmax, plans the polynomial, evaluates in the clear and every softmax of every test image under CKKS. Then a ViT
# of one block that is polynomial throughout: its whole attention under CKKS, the whole network under CKKS, and the same
# as a client and a server with files between them.
# Needs Python 3.11 and PyPI, 8 GB of disk, 4 GB of memory; minutes: results/bench/demo.json. A second call reuses all.
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

net="$out/digits-network"
step "student: polynomial throughout, one block" train.py experiment=digits_network_1 outputs="$out" \
    distill.teacher="$out/digits-teacher"
judged step "in the clear: the polynomial student" eval_plain.py ckpt="$net"
judged step "under CKKS: its softmaxes" eval_he.py ckpt="$net" he=desilo approx=exact he.samples="$samples"
judged step "under CKKS: its whole attention" eval_he.py ckpt="$net" he=desilo he.scope=attention approx=exact \
    he.samples="$samples"
judged step "under CKKS: the whole network, from pixels to logits" eval_he.py ckpt="$net" he=desilo he.scope=network \
    approx=exact he.samples="$samples" he.processes="$(($(nproc) > 1 ? 2 : 1))"

sides="$out/client-server" # made anew: results are never written over
rm -rf "$sides" && mkdir -p "$sides"
"$PY" -c 'import sys, numpy, sklearn.datasets as d; numpy.save(sys.argv[1], d.load_digits().images[:3, None] / 16)' \
    "$sides/images.npy"
client() { step "client: $1" -m cgf.client "${@:2}" --bundle "$sides/client" --keys "$sides/keys"; }
step "the two bundles: the client's and the server's" -m cgf.server bundle "$net" --out "$sides" --alone
client "makes the keys; the secret one stays" keys
client "encrypts three images, each alone" encrypt "$sides/images.npy" --out "$sides/uploads"
step "server: computes on ciphertexts" -m cgf.server run "$sides/uploads" --bundle "$sides/server" \
    --keys "$sides/keys/evaluation.keys" --out "$sides/results"
client "decrypts the logits" decrypt "$sides/results" --out "$sides/logits.json"
printf '\n%s\n' "the client's files:" && du -sh "$sides"/client "$sides"/keys/* "$sides"/uploads
printf '%s\n' "the server's files:" && du -sh "$sides"/server "$sides"/results

step "report" scripts/report.py "$out"
finish
