#!/usr/bin/env bash
# Whole attentions under CKKS, by test set: bash scripts/attention_sets.sh clinc150 sst2 banking77 stories digits smollm2 vit
# Trains a teacher and a student with a chain of 3 squarings in the loop (the rows of training, seed 42), then evaluates
# every test sample with the attention of every layer and head on ciphertexts: results/he/attention/*.json. clinc150,
# sst2 and banking77 are MiniLM (requirements-models.txt), stories is the LLaMA of the data folder with causal masks (500
# sentences), digits a ViT. smollm2 and vit have CGF-softmax with planned polynomials: SmolLM2-135M (causal masks, 50
# sentences) after two epochs of 2,400 texts as teacher and one as student, ViT-S/14 of 197 tokens (20 images of CIFAR-10)
# after 5 epochs at 70 pixels and 9,000 images at 196 (78.7 % of validation). Needs the data folder (CGF_DATA_ROOT)
# except for digits, 8 GiB and, on 2 cores, up to two hours of training and, of clinc150, 17 minutes of encryption.
# Stopped, it goes on.
set -euo pipefail
source "$(dirname "$0")/setup.sh" requirements.txt requirements-models.txt
out=${OUT:-outputs/attention}
workers=${WORKERS:-$(nproc)}

student() { # host, options of scripts/rows.py...
    "$PY" scripts/rows.py "host=$1" 'softmaxes=[cgf_chain]' 'seeds=[42]' "outputs=$out/rows" "out=$out/rows/results" "${@:2}"
}

encrypted() { # checkpoint, name of the result, samples (all), polynomials, options...
    judged "$PY" eval_he.py "ckpt=$1" he=desilo he.scope=attention "he.workers=$workers" "${4:-approx=exact}" \
        "out=$out/he/$2.json" "he.samples=${3:-null}" "${@:5}"
    mkdir -p results/he/attention
    cp "$out/he/$2.json" results/he/attention/
}

train() { # run, options...
    "$PY" train.py "outputs=$out" "run=$1" train.save_every=50 "${@:2}"
}

smollm2() { # a plan a layer; queries scaled first, so that one epoch is enough
    local own=(model=smollm2 task=clinc150 "task.limit={train: 2400, val: 300}" train.batch_size=16 train.lr=2.0e-4)
    train smollm2-teacher "${own[@]}" softmax=exact train.epochs=2
    train smollm2-cgf "${own[@]}" "ckpt=$out/smollm2-teacher" distill=kd softmax=cgf softmax.ceiling=1.5 \
        penalty.weight=1.0 penalty.bound=32.0 penalty.high=1.0 penalty.worst=0.1 temper.samples=96 train.epochs=1
    "$PY" scripts/plan.py "ckpt=$out/smollm2-cgf" "margin=[2.5,1.2]" per_layer=true pareto=false
    encrypted "$out/smollm2-cgf" smollm2-clinc150-cgf 50 approx=plan
}

vit() { # 197 tokens, 6 heads, 10 layers: small images first, which take an eighth of the time
    local own=(model=vit_s14 task=cifar10 train.weight_decay=0.05 train.warmup=0.1 train.schedule=cosine)
    local large=(model.img_size=196 softmax=cgf penalty.high=1.0 penalty.row_sum.weight=0.01 train.epochs=1
        train.eval_batch_size=32)
    train vit_s14-70 "${own[@]}" model.img_size=70 softmax=exact train.epochs=5 train.lr=5.0e-5
    train vit_s14-196-1 "${own[@]}" "${large[@]}" "ckpt=$out/vit_s14-70" "task.limit={train: 2000, val: 300}" \
        penalty.weight=0.1 penalty.bound=32.0 temper.samples=32 train.lr=5.0e-5
    train vit_s14-196-2 "${own[@]}" "${large[@]}" "ckpt=$out/vit_s14-196-1" "task.limit={train: 2500, val: 300}" \
        penalty.weight=1.0 penalty.bound=14.0 train.batch_size=8 train.lr=4.0e-5
    train vit_s14-196-3 "${own[@]}" "${large[@]}" "ckpt=$out/vit_s14-196-2" "task.limit={val: 300}" \
        penalty.weight=1.0 penalty.bound=14.0 train.batch_size=16 train.lr=3.0e-5
    "$PY" scripts/plan.py "ckpt=$out/vit_s14-196-3" samples=60 pareto=false
    encrypted "$out/vit_s14-196-3" vit_s14-cifar10-cgf 20 approx=plan
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
        smollm2 | vit) "$task" ;;
        *) echo "error: a set is clinc150, sst2, banking77, stories, digits, smollm2 or vit, and '$task' was given" >&2; exit 2 ;;
    esac
done
"$PY" scripts/repo/tables.py
finish
