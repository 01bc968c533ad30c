#!/usr/bin/env bash
# Whole test sets with whole attentions under CKKS: bash scripts/attention_sets.sh clinc150 sst2 banking77 stories digits
# Trains a teacher and a student with a chain of 3 squarings in the loop (the rows of training, seed 42), then evaluates
# every test sample with the attention of every layer and head on ciphertexts: results/he/attention/*.json. clinc150,
# sst2 and banking77 are MiniLM (requirements-models.txt), stories is the LLaMA of the data folder with causal masks (500
# sentences), digits a ViT. Needs the data folder (CGF_DATA_ROOT) except for digits, 8 GiB and, on 2 cores, up to half an
# hour of training and, of clinc150, 17 minutes of encryption; banking77 was not run yet. Stopped, it goes on.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-models.txt
out=${OUT:-outputs/attention}
workers=${WORKERS:-$(nproc)}

student() { # host, options of scripts/rows.py...
    "$PY" scripts/rows.py "host=$1" 'softmaxes=[cgf_chain]' 'seeds=[42]' "outputs=$out/rows" "out=$out/rows/results" "${@:2}"
}

encrypted() { # checkpoint, name of the result, samples (all)
    judged "$PY" eval_he.py "ckpt=$1" he=desilo he.scope=attention "he.workers=$workers" approx=exact \
        "out=$out/he/$2.json" "he.samples=${3:-null}"
    mkdir -p results/he/attention
    cp "$out/he/$2.json" results/he/attention/
}

for task in "$@"; do
    case $task in
        clinc150 | sst2 | banking77)
            student minilm "study.task=$task"
            encrypted "$out/rows/minilm-$task/seed-42/cgf_chain" "minilm-$task-cgf_chain"
            ;;
        stories)
            student stories260k
            encrypted "$out/rows/stories260k-clinc150/seed-42/cgf_chain" stories260k-clinc150-cgf_chain 500
            ;;
        digits)
            student digits
            encrypted "$out/rows/digits-digits/seed-42/cgf_chain" vit_digits-digits-cgf_chain
            ;;
        *) echo "error: a set is clinc150, sst2, banking77, stories or digits, and '$task' was given" >&2; exit 2 ;;
    esac
done
"$PY" scripts/repo/tables.py
finish
