#!/usr/bin/env bash
# Whole networks under CKKS, from encrypted pixels to logits: bash scripts/network_sets.sh digits_1 digits_2
# Trains a teacher and a student that is polynomial throughout, a ViT for digits of one block or of two, then evaluates
# the whole test set with nothing decrypted between input and logits: results/he/network/*.json. Needs, on 2 cores,
# minutes of training, 1 to 5 minutes of encryption and up to 4 GiB. Stopped, it goes on.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt
out=${OUT:-outputs/network}
workers=${WORKERS:-1}

student() { # experiment, teacher, options...
    "$PY" train.py "experiment=$1" "distill.teacher=$out/$2" "outputs=$out" "${@:3}"
}

encrypted() { # run, name of the result
    judged "$PY" eval_he.py "ckpt=$out/$1" he=desilo he.scope=network "he.workers=$workers" approx=exact he.samples=null \
        "out=$out/he/$2.json"
    mkdir -p results/he/network
    cp "$out/he/$2.json" results/he/network/
}

for network in "$@"; do
    case $network in
        digits_1)
            "$PY" train.py experiment=digits_teacher "outputs=$out"
            student digits_network_1 digits-teacher run=digits-network-1
            encrypted digits-network-1 vit_digits-digits-1_block
            ;;
        digits_2)
            "$PY" train.py experiment=digits_teacher "outputs=$out"
            student digits_network digits-teacher run=digits-network-2
            encrypted digits-network-2 vit_digits-digits-2_blocks
            ;;
        *) echo "error: a network is digits_1 or digits_2, and '$network' was given" >&2; exit 2 ;;
    esac
done
"$PY" scripts/repo/tables.py
finish
