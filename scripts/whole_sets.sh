#!/usr/bin/env bash
# Whole test sets under CKKS: bash scripts/whole_sets.sh clinc150 banking77 sst2 stories digits
# Trains a teacher and a student with a polynomial that few levels hold, then evaluates every test sample with every
# softmax under CKKS; results/he/*.json, traces as PNG beside. clinc150, banking77 and sst2 are MiniLM
# (requirements-models.txt) with a chain of 3 squarings in the loop and an exact student of as many epochs; stories is the
# LLaMA of the data folder with causal masks; digits a ViT. rivals, after clinc150: the paper's Algorithm 1 and the limit
# with the CGF student of clinc150, BPMax and Taylor, each on the same 4,500 sentences, 20 minutes and more each. Needs the data folder (CGF_DATA_ROOT) except for digits,
# 4 GiB and, on 2 cores, 40 to 60 minutes of training and 1 to 8 of encryption each. Stopped, it goes on.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-models.txt
out=${OUT:-outputs/whole}
workers=${WORKERS:-$(nproc)}

train() { # run, options...
    "$PY" train.py "outputs=$out" "run=$1" train.save_every=100 "${@:2}"
}

encrypted() { # run, name of the result, options...
    "$PY" eval_he.py "ckpt=$out/$1" he=desilo he.samples=null "he.workers=$workers" "out=$out/he/$2.json" "${@:3}"
    mkdir -p results/he
    cp "$out/he/$2.json" "$out/he/$2.png" results/he/
}

minilm() { # task, options of the task...
    local own=(model=minilm "task=$1" "${@:2}") kd=(distill=kd "ckpt=$out/$1-teacher" "distill.teacher=$out/$1-teacher")
    local chain=(softmax=cgf_chain softmax.k=3 'softmax.domain=[-18.0,1.2]' penalty.weight=1.0 penalty.bound=16.0)
    train "$1-teacher" "${own[@]}" softmax=exact train.epochs=3 train.lr=1.0e-4
    train "$1-exact" "${own[@]}" "${kd[@]}" softmax=exact train.epochs=3 train.lr=5.0e-5
    # CGF with its range under control first, as in configs/study/minilm.yaml
    train "$1-cgf" "${own[@]}" "${kd[@]}" softmax=cgf penalty.weight=1.0 penalty.bound=32.0 train.epochs=3 train.lr=5.0e-5
    train "$1-chain3" "${own[@]}" "${chain[@]}" distill=kd "ckpt=$out/$1-cgf" "distill.teacher=$out/$1-teacher" \
        train.epochs=2 train.lr=3.0e-5
    "$PY" eval_plain.py "ckpt=$out/$1-exact"
    encrypted "$1-chain3" "minilm-$1-cgf_chain" approx=exact
}

rivals() { # what the paper has, on the sentences of clinc150
    local own=(model=minilm task=clinc150 distill=kd "ckpt=$out/clinc150-teacher" "distill.teacher=$out/clinc150-teacher")
    "$PY" scripts/plan.py "ckpt=$out/clinc150-cgf" samples=null # its range, from which k follows
    encrypted clinc150-cgf minilm-clinc150-cgf_paper approx=chebyshev he.circuit=paper
    encrypted clinc150-cgf minilm-clinc150-cgf_limit approx=limit he.circuit=paper
    train clinc150-bpmax "${own[@]}" softmax=bpmax_calibrated softmax.p=5 softmax.c=5.0 train.epochs=3 train.lr=5.0e-5
    encrypted clinc150-bpmax minilm-clinc150-bpmax approx=exact
    train clinc150-taylor "${own[@]}" softmax=taylor softmax.degree=3 softmax.x0=-3.0 train.epochs=3 train.lr=5.0e-5
    encrypted clinc150-taylor minilm-clinc150-taylor approx=exact
}

for task in "$@"; do
    case $task in
        rivals) rivals ;;
        clinc150 | banking77) minilm "$task" ;;
        sst2) minilm sst2 'task.limit={train: 12000}' ;;
        stories | digits)
            "$PY" train.py "experiment=${task}_teacher" "outputs=$out"
            "$PY" train.py "experiment=${task}_student" "outputs=$out" "ckpt=$out/$task-teacher" "run=$task-cgf"
            "$PY" scripts/plan.py "ckpt=$out/$task-cgf"
            [ "$task" = stories ] && name=stories260k-clinc150-cgf || name=vit_digits-digits-cgf
            encrypted "$task-cgf" "$name"
            ;;
        *) echo "error: a set is clinc150, rivals, banking77, sst2, stories or digits, and '$task' was given" >&2; exit 2 ;;
    esac
done
"$PY" scripts/tables.py
