#!/usr/bin/env bash
# Checks the backend cuda on this machine's GPU and measures it; prints what docs/results/gpu.md shows. It took 4.8 minutes on
# 16 cores and an H200, before ResNet-50, GPT-2 and PyTorch were among it; meant for ten.
#
#   scripts/check-gpu.sh                          # with build/podium and the datasets that are found
#   scripts/check-gpu.sh --data DIR               # datasets there (PODIUM_DATA)
#   scripts/check-gpu.sh --bundle DIR             # gathers what a GPU machine without our packages needs, and ends
#   DIR/check-gpu.sh                              # there
#   scripts/check-gpu.sh --emulated               # on the emulated GPU: a fraction of the steps, no speeds
#
# The most valuable first, each printed as it comes, so that a run that is cut short has said what matters most:
#
# 1. the tensor cores beside the rule of their order, warpgroups beside warps
# 2. the first hashes of each recipe, GPU and CPU; in BF16, of one worker and of two, and by both instructions
# 3. images/s or tokens/s of each recipe in FP32 and in BF16, among them ResNet-50 and GPT-2 where their data are, beside PyTorch's where
#    PODIUM_PEERS names the folder of torch_bench.py and torch_text.py and PODIUM_PEER_PYTHON (python3) has PyTorch with CUDA; a whole run of
#    the sprint in BF16; and the time of each operation beside its roof
# 4. every operation against the reference, bit for bit
# 5. the first hashes in BF16 beside a CPU's in the same order; generated texts beside a CPU's; of all GPUs of the machine beside one, where
#    there are several; of two ranks on one GPU over MPI, where there is mpirun
# 6. an audited run of the GPU, of which the CPU proves drawn steps; a run that moves from CPU to GPU and back; a whole run of mnist, GPU and CPU
# 7. DavidNet in PyTorch as compiled with max-autotune, which takes minutes to compile
# shellcheck disable=SC2317 # verdict() calls the functions
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ -e $here/podium ]]; then # a bundle
  build=$here
  export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PODIUM_RECIPES=$here/recipes
  conformance=$here/backend_test
else
  build=$(dirname "$here")/build
  conformance=$build/src/backend/backend_test
fi
podium=$build/podium
torch=$build/torch_on_gpu.py
[[ -e $torch ]] || torch=$(dirname "$here")/tests/peer/torch_on_gpu.py
python=${PODIUM_PEER_PYTHON:-python3}
peers=${PODIUM_PEERS:-}
[[ -n $peers || ! -d $here/peers ]] || peers=$here/peers
backend=cuda
# Recipe and steps whose hashes are compared; then recipe and steps to measure.
in_bf16=(cifar10-resnet32:100 cifar10-davidnet:30)
in_bf16_with=()
compared=(mnist:200 cifar10-resnet32:200 cifar10-davidnet:60 cifar10-sprint:12)
measured=(cifar10-davidnet:150 cifar10-sprint:60 imagenet-resnet50:40 gpt2-124m:10 mnist:2000 cifar10-resnet32:1000)
has_wgmma=0 # lines that the probe has of it
declare -A with=() # what a recipe is given to be measured
whole=(mnist)
while [[ $# -gt 0 ]]; do
  case $1 in
    --data) export PODIUM_DATA=${2:?--data takes a folder} && shift ;;
    --bundle)
      bundle=${2:?--bundle takes a folder}
      mkdir -p "$bundle/lib"
      cp "$podium" "$conformance" "$bundle/"
      cp -r "$(dirname "$here")/recipes" "$bundle/"
      cp "${BASH_SOURCE[0]}" "$bundle/check-gpu.sh"
      cp "$torch" "$bundle/"
      if [[ -n $peers ]]; then mkdir -p "$bundle/peers" && cp "$peers"/*.py "$bundle/peers/"; fi
      # All libraries but those of the C library, which must be the machine's own.
      for program in "$podium" "$conformance"; do
        ldd "$program" | sed -nE 's/.* => (\/[^ ]+) .*/\1/p'
      done | sort -u | grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libresolv)[-.]' |
        xargs -r cp -Lt "$bundle/lib"
      du -sh "$bundle"
      exit
      ;;
    --emulated)
      backend=cuda-emulated
      podium=$build/tests/cuda/podium-cuda-emulated
      compared=(glyphs:12 mnist:2)
      in_bf16=(glyphs:2)
      in_bf16_with=(batch=4 replicas=2 test_examples=8) # a step of the emulation takes a second for each image
      measured=()
      whole=()
      ;;
    *) echo "unknown option $1; the first lines of this file list them" >&2 && exit 2 ;;
  esac
  shift
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Photographs of 224 pixels for ResNet-50, and tokens for GPT-2: 16 windows of 1,024 a replica.
prepare() {
  local data=${PODIUM_DATA:-data} ready=() pair
  local text=$data/wikitext-2/train.txt photographs=$data/imagenette/imagenette.tar
  for pair in "${measured[@]}"; do
    case ${pair%:*} in
      imagenet-resnet50)
        [[ -e $photographs ]] || { echo "ResNet-50 was not measured: there is no $photographs." && continue; }
        tar -C "$folder" -xf "$photographs" imagenette
        with[imagenet-resnet50]="data=folder:$folder/imagenette data.classes=10 train_examples=0 test_examples=0 --keep-decoded 2GiB"
        ;;
      gpt2-124m)
        [[ -e $text && -e $data/gpt2-bpe ]] || { echo "GPT-2 was not measured: there is no $text, or no $data/gpt2-bpe." && continue; }
        "$podium" data tokenize "$text" --tokenizer "$data/gpt2-bpe" --out "$folder/tokens" --held-out 0.01 >"$folder/log" 2>&1 ||
          { tail -n 1 "$folder/log" && continue; }
        with[gpt2-124m]="data.path=$folder/tokens batch=64 replicas=4"
        ;;
    esac
    ready+=("$pair")
  done
  measured=("${ready[@]}")
}
failed=0
verdict() { # WHAT COMMAND...: a line of a table
  local what=$1
  shift
  if "$@" >"$folder/log" 2>&1; then
    echo "| $what | equal |"
  else
    echo "| $what | **differs or failed**: $(tail -n 1 "$folder/log") |"
    failed=1
  fi
}
train() { # OUT BACKEND RECIPE STEPS [ARGUMENT...]
  local out=$folder/$1 backend=$2 recipe=$3 steps=$4
  shift 4
  "$podium" train "$recipe" --backend "$backend" --out "$out" --quiet --steps "$steps" "$@"
}
compare_operations() { # several processes share the tests
  local shards=$(($(nproc) < 8 ? $(nproc) : 8)) code=0 shard
  local running=()
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "$conformance" --gtest_filter='*onformance*' --gtest_brief=1 &
    running+=($!)
  done
  for shard in "${running[@]}"; do wait "$shard" || code=1; done
  return "$code"
}
compare_first() { # RECIPE STEPS
  rm -rf "${folder:?}/cpu" "$folder/gpu"
  train cpu cpu "$1" "$2" evaluation.every_epochs=0 run.hash_every_steps=1 &&
    train gpu "$backend" "$1" "$2" evaluation.every_epochs=0 run.hash_every_steps=1 &&
    "$podium" diff "$folder/cpu" "$folder/gpu"
}
compare_whole() { # RECIPE
  rm -rf "${folder:?}/cpu" "$folder/gpu"
  "$podium" train "$1" --backend cpu --out "$folder/cpu" --quiet &&
    "$podium" train "$1" --backend "$backend" --out "$folder/gpu" --quiet &&
    "$podium" diff "$folder/cpu" "$folder/gpu"
}
move_between() {
  rm -rf "${folder:?}/cpu" "$folder/moved"
  train cpu cpu glyphs 24
  train moved cpu glyphs 6 && train moved "$backend" glyphs 12
  # Killed in the middle of a step, and resumed on the other device.
  train moved "$backend" glyphs 24 run.checkpoint_every_steps=2 &
  local run=$!
  sleep 2
  kill -KILL "$run" 2>/dev/null || true
  wait "$run" 2>/dev/null || true
  train moved cpu glyphs 24 && "$podium" diff "$folder/cpu" "$folder/moved"
}

compare_bf16() { # RECIPE STEPS
  rm -rf "${folder:?}/one" "$folder/two"
  train one "$backend" "$1" "$2" precision=bf16 "${in_bf16_with[@]}" evaluation.every_epochs=0 --workers 1 &&
    train two "$backend" "$1" "$2" precision=bf16 "${in_bf16_with[@]}" evaluation.every_epochs=0 --workers 2 &&
    "$podium" diff "$folder/one" "$folder/two"
}
# The CPU in the order that the GPU took. A GPU without one has BF16 of its own.
compare_bf16_with_cpu() { # RECIPE STEPS
  local order
  rm -rf "${folder:?}/cpu" "$folder/gpu"
  train gpu "$backend" "$1" "$2" precision=bf16 "${in_bf16_with[@]}" evaluation.every_epochs=0 run.hash_every_steps=1 || return 1
  order=$(sed -n 's/^bf16_order = "\(.*\)"$/\1/p' "$folder/gpu/recipe.toml")
  [[ -n $order ]] || { echo "this GPU keeps none of the orders" && return 1; }
  train cpu cpu "$1" "$2" precision=bf16 bf16_order="$order" "${in_bf16_with[@]}" evaluation.every_epochs=0 run.hash_every_steps=1 &&
    "$podium" diff "$folder/cpu" "$folder/gpu"
}

# An audited run of the GPU, of which the CPU proves drawn steps.
prove() { # RECIPE STEPS
  rm -rf "${folder:?}/gpu"
  train gpu "$backend" "$1" "$2" run.audit_every_steps=4 run.audit_backend=cpu evaluation.every_epochs=0 &&
    "$podium" verify "$folder/gpu" --backend cpu --budget 20s
}
compare_instructions() { # RECIPE STEPS
  rm -rf "${folder:?}/warps" "$folder/gpu"
  PODIUM_WGMMA=0 train warps "$backend" "$1" "$2" precision=bf16 evaluation.every_epochs=0 run.hash_every_steps=1 &&
    train gpu "$backend" "$1" "$2" precision=bf16 evaluation.every_epochs=0 run.hash_every_steps=1 &&
    "$podium" diff "$folder/warps" "$folder/gpu"
}
compare_gpus() { # RECIPE STEPS
  rm -rf "${folder:?}/one" "$folder/all"
  train one "$backend" "$1" "$2" --gpus 0 evaluation.every_epochs=0 run.hash_every_steps=1 &&
    train all "$backend" "$1" "$2" evaluation.every_epochs=0 run.hash_every_steps=1 &&
    "$podium" diff "$folder/one" "$folder/all"
}
generate() { # RUN BACKEND TOKENS
  "$podium" generate "$folder/$1" --backend "$2" --prompt "The " --tokens "$3" --seed 1
}
compare_texts() { # PRECISION
  rm -rf "${folder:?}/gpu"
  train gpu "$backend" shakespeare-char-small 20 "precision=$1" evaluation.every_epochs=0 &&
    generate gpu "$backend" 100 >"$folder/one" && generate gpu cpu 100 >"$folder/two" &&
    cmp "$folder/one" "$folder/two"
}
# Tokens per second of the run in $folder/gpu, without what starting takes.
speed_of_text() {
  local before between after
  before=$(date +%s%N) && generate gpu "$backend" 50 >/dev/null && between=$(date +%s%N) && generate gpu "$backend" 550 >/dev/null &&
    after=$(date +%s%N) && echo $((500 * 1000000000 / (after - between - (between - before))))
}
compare_ranks() { # RECIPE STEPS
  rm -rf "${folder:?}/one" "$folder/two"
  train one "$backend" "$1" "$2" evaluation.every_epochs=0 &&
    mpirun -n 2 --oversubscribe "$podium" train "$1" --backend "$backend" --gpus 0 --out "$folder/two" --quiet --steps "$2" evaluation.every_epochs=0 &&
    "$podium" diff "$folder/one" "$folder/two"
}

echo "## $(date +%F), $backend"
echo
echo '```'
"$podium" devices
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader
echo '```'
echo
table() {
  echo
  echo "| check | result |"
  echo "| --- | --- |"
}
table
if [[ $backend == cuda ]]; then
  verdict "tensor cores, 10^8 random products of 16 terms in chains of four, beside the rule" "$podium" devices --probe
  has_wgmma=$(grep -c wgmma "$folder/log" || true)
fi
for pair in "${compared[@]}"; do
  verdict "\`${pair%:*}\`, the hashes of ${pair#*:} steps" compare_first "${pair%:*}" "${pair#*:}"
done
for pair in "${in_bf16[@]}"; do
  verdict "\`${pair%:*}\` in BF16, ${pair#*:} steps, one worker and two" compare_bf16 "${pair%:*}" "${pair#*:}"
  ((has_wgmma == 0)) ||
    verdict "\`${pair%:*}\` in BF16, ${pair#*:} steps, by \`wgmma\` and by \`mma.sync\`" compare_instructions "${pair%:*}" "${pair#*:}"
done

# PyTorch's images/s and Podium's as a multiple of them: RECIPE MODE PODIUM'S, as two columns.
beside_torch() {
  awk -v name="$1:$2" -v ours="$3" '
    $1 == name && $2 ~ /^[0-9]+$/ { printf " %d | %.2f |", $2, ours / $2; found = 1 }
    $1 == name && $2 !~ /^[0-9]+$/ { $1 = ""; printf " %s | |", substr($0, 2, 60); found = 1 }
    END { if (!found) printf " | |" }' "$folder/torch"
}
# A GPU's BF16 TFLOP/s by its data sheet, of dense products; nothing for others.
peak_of_gpu() {
  case $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) in
    *H100*PCIe*) echo 756 ;;
    *H100* | *H200*) echo 989 ;;
    *A100*) echo 312 ;;
  esac
}
value() { sed -nE "s/.*\"$1\": ?([0-9.e+-]+).*/\1/p" "$folder/json"; } # of a run's result
declare -A podium_speed
texts=()
if [[ ${#measured[@]} -gt 0 ]]; then
  echo
  prepare
  echo
  echo "| recipe | precision | images/s or tokens/s | input waiting | memory |"
  echo "| --- | --- | --- | --- | --- |"
  for pair in "${measured[@]}"; do
    for precision in fp32 bf16; do
      rm -rf "${folder:?}/gpu"
      # shellcheck disable=SC2086 # words
      train gpu "$backend" "${pair%:*}" "${pair#*:}" "precision=$precision" evaluation.every_epochs=0 --json ${with[${pair%:*}]:-} \
        >"$folder/json" 2>"$folder/log" ||
        { echo "| \`${pair%:*}\` | $precision | **failed**: $(tail -n 1 "$folder/log") | | |" && failed=1 && continue; }
      speed=$(value images_per_second)
      podium_speed[${pair%:*}/$precision]=${speed:-$(value tokens_per_second)}
      # shellcheck disable=SC2016 # Markdown's
      printf '| `%s`, %s steps | %s | %.0f | %.2f%% | %.0f MB of the host |\n' "${pair%:*}" "${pair#*:}" "$precision" \
        "${podium_speed[${pair%:*}/$precision]}" "$(value input_wait_percent)" "$(($(value peak_memory_bytes) / 1000000))"
      [[ ${pair%:*} != gpt2-124m ]] || texts+=("$precision, $(speed_of_text 2>"$folder/log" || tail -n 1 "$folder/log")")
    done
  done
  # shellcheck disable=SC2016 # Markdown's
  ((${#texts[@]} == 0)) || printf '\nTokens/s that `gpt2-124m` generates one after the other: %s.\n' "$(IFS=';' && echo "${texts[*]}")"
  for pair in "${measured[@]}"; do
    ((has_wgmma > 0)) || break
    [[ ${pair%:*} == *davidnet || ${pair%:*} == gpt2* || ${pair%:*} == *resnet50 ]] || continue
    rm -rf "${folder:?}/gpu"
    # shellcheck disable=SC2086 # words
    PODIUM_WGMMA=0 train gpu "$backend" "${pair%:*}" "${pair#*:}" precision=bf16 evaluation.every_epochs=0 --json ${with[${pair%:*}]:-} \
      >"$folder/json" 2>"$folder/log" || { tail -n 1 "$folder/log" && failed=1 && continue; }
    speed=$(value images_per_second)
    # shellcheck disable=SC2016 # Markdown's
    printf '| `%s`, %s steps, by `mma.sync` | bf16 | %.0f | | |\n' "${pair%:*}" "${pair#*:}" "${speed:-$(value tokens_per_second)}"
  done
  if [[ -n ${podium_speed[gpt2-124m/bf16]:-} ]]; then
    # 6N + 12LCT: 124,475,904 parameters, 12 layers, width 768, 1,024 tokens.
    awk -v rate="${podium_speed[gpt2-124m/bf16]}" -v peak="$(peak_of_gpu)" 'BEGIN {
      flops = rate * (6 * 124475904 + 12 * 12 * 768 * 1024) / 1e12
      printf "\nGPT-2 in BF16: %.1f TFLOP/s, a token being 6N + 12LCT", flops
      if (peak > 0) printf "; %.1f%% of the %d of the data sheet (MFU)", 100 * flops / peak, peak
      print "." }'
  fi
  rm -rf "${folder:?}/gpu"
  echo
  if "$podium" train cifar10-sprint precision=bf16 --backend "$backend" --out "$folder/gpu" --quiet --json >"$folder/json" 2>"$folder/log"; then
    echo "A whole run of the sprint in BF16: accuracy $(value accuracy), $(value train_seconds) s of training."
  else
    echo "A whole run of the sprint in BF16 **failed**: $(tail -n 1 "$folder/log")" && failed=1
  fi
  if [[ -n $peers ]]; then
    modes=(fp32+channels_last tf32+channels_last bf16+channels_last fp32+channels_last+compile bf16+channels_last+compile)
    cases=()
    for mode in "${modes[@]}"; do
      for pair in "${measured[@]}"; do
        [[ ${pair%:*} == gpt2-124m ]] || cases+=("${pair%:*}:$mode")
      done
    done
    "$python" "$torch" "${cases[@]}" --peers "$peers" --data "${PODIUM_DATA:-data}" >"$folder/torch" 2>"$folder/log" ||
      tail -n 1 "$folder/log"
    echo
    echo "PyTorch's images/s, with inputs ready in the GPU's memory, and Podium's as a multiple of them: BF16 beside BF16, FP32 beside the others:"
    echo
    echo "| recipe |$(printf ' %s | ratio |' "${modes[@]}")"
    echo "| --- |$(printf ' --- | --- |%.0s' "${modes[@]}")"
    for pair in "${measured[@]}"; do
      recipe=${pair%:*}
      [[ $recipe != gpt2-124m ]] || continue
      [[ -n ${podium_speed[$recipe/fp32]:-} && -n ${podium_speed[$recipe/bf16]:-} ]] || continue
      # shellcheck disable=SC2016 # Markdown's
      printf '| `%s` |' "$recipe"
      for mode in "${modes[@]}"; do
        precision=fp32
        [[ $mode != bf16* ]] || precision=bf16
        beside_torch "$recipe" "$mode" "${podium_speed[$recipe/$precision]}"
      done
      echo
    done
    if [[ -n ${podium_speed[gpt2-124m/bf16]:-} ]]; then
      echo
      echo "| GPT-2, 16 windows of 1,024 | PyTorch's tokens/s | Podium's, as a multiple |"
      echo "| --- | --- | --- |"
      for mode in bf16 compile+bf16 eager compile; do
        precision=fp32
        [[ $mode != *bf16 ]] || precision=bf16
        speed=$("$python" "$peers/torch_text.py" gpt2-124m-1024 --batch 16 --device cuda --mode "$mode" 2>"$folder/log" |
          sed -nE 's/.*"tokens_per_s": ([0-9.]+).*/\1/p' || true)
        awk -v mode="$mode" -v theirs="${speed:-0}" -v ours="${podium_speed[gpt2-124m/$precision]:-0}" -v error="$(tail -n 1 "$folder/log")" 'BEGIN {
          if (theirs > 0) printf "| %s | %.0f | %.2f |\n", mode, theirs, ours / theirs
          else printf "| %s | failed: %s | |\n", mode, substr(error, 1, 80) }'
      done
    fi
  else
    echo
    echo "PyTorch was not measured beside it: PODIUM_PEERS is not set."
  fi
  for pair in "${measured[@]}"; do
    for precision in fp32 bf16; do
      echo
      echo "\`podium bench recipe ${pair%:*} precision=$precision --backend $backend\`:"
      echo
      echo '```'
      # shellcheck disable=SC2086 # words
      "$podium" bench recipe "${pair%:*}" "precision=$precision" --backend "$backend" ${with[${pair%:*}]:-} 2>&1 || failed=1
      echo '```'
    done
  done
fi

table
if [[ $backend == cuda ]]; then
  verdict "every operation, samples and random shapes" compare_operations
fi
for pair in "${in_bf16[@]}"; do
  verdict "\`${pair%:*}\` in BF16, ${pair#*:} steps, beside the CPU in the same order" compare_bf16_with_cpu "${pair%:*}" "${pair#*:}"
done
if [[ -e ${PODIUM_DATA:-data}/tinyshakespeare/input.txt ]]; then
  for precision in fp32 bf16; do
    verdict "\`shakespeare-char-small\` in $precision: the text that GPU and CPU generate" compare_texts "$precision"
  done
fi
gpus=${PODIUM_CUDA_DEVICES:-$("$podium" devices | grep -c '^ *GPU [0-9]*:' || true)}
if ((gpus > 1)); then
  for pair in "${compared[@]}"; do
    verdict "\`${pair%:*}\`, ${pair#*:} steps, $gpus GPUs beside one" compare_gpus "${pair%:*}" "${pair#*:}"
  done
fi
if command -v mpirun >/dev/null; then
  verdict "\`${compared[0]%:*}\`, ${compared[0]#*:} steps, two ranks on one GPU over MPI" compare_ranks "${compared[0]%:*}" "${compared[0]#*:}"
fi
verdict "\`${compared[0]%:*}\`, ${compared[0]#*:} steps with audits, proven by the CPU" prove "${compared[0]%:*}" "${compared[0]#*:}"
verdict "\`glyphs\`, started on the CPU, killed on the GPU, ended on the CPU" move_between
for recipe in "${whole[@]}"; do
  verdict "\`$recipe\`, a whole run" compare_whole "$recipe"
done
if [[ ${#measured[@]} -gt 0 && -n $peers ]]; then
  echo
  "$python" "$torch" cifar10-davidnet:bf16+channels_last+autotune --peers "$peers" --data "${PODIUM_DATA:-data}" 2>"$folder/log" ||
    tail -n 1 "$folder/log"
fi
exit "$failed"
