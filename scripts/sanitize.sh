#!/usr/bin/env bash
# Builds with sanitizers and runs tests.
#
#   scripts/sanitize.sh address,undefined    # in build-asan, with the fuzz targets: the tests of every folder
#   scripts/sanitize.sh thread               # in build-tsan: of the folders with threads, and the law's placements
#
# Both build by clang: the oldest that is supported, or that of PODIUM_CLANG.
#
# Further arguments go to ctest: scripts/sanitize.sh thread -R Exchange
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

kind=${1:-address,undefined}
shift || true
case $kind in
  address,undefined)
    "$root/scripts/install-dependencies.sh" build test "${PODIUM_CLANG:-fuzz}"
    folder=build-asan
    configure_asan
    targets=(quick_tests)
    # Left out, because they take half of the time: formulas in double precision and a linear model, which the tests themselves
    # compute, the whitening of one recipe, and BF16 products of the largest tiles, which smaller ones share. The reference's
    # Winograd also runs in WinogradTest, and BF16's convolutions with random shapes; so do those of fixed shapes that are left out,
    # and several replicas and turns in the conformance of the emulated GPU; Winograd's and the loss of many classes' fixed shapes, of which
    # random ones are run; the memory of the largest recipes, and networks that are computed twice. What measures time says nothing here.
    tests=(-L '^quick$' -E '^PlainFormula[.]conv2d_winograd|a_linear_model|PlanOfRecipe.*cifar10_sprint|Bf16Products.follow_the_contract_in_the_largest|^AllOps/Conformance.backends_return_the_bits_of_the_reference/conv2d_bf16|Bf16Products.follow_the_contract_in_the_tiles|CudaWinograd.works_in_several|CudaProducts.of_several|ConvTest.*of_mnist|WinogradTest.errors_against|^Measured[.]|Copies.of_large|^Recompute[.]|PlanOfRecipe.*/(cifar10_davidnet|mnist_augmented|cifar10_resnet32)|^AllOps/Conformance.backends_return_the_bits_of_the_reference/(conv2d_winograd|linear_cross_entropy)')
    ;;
  thread)
    "$root/scripts/install-dependencies.sh" build test fuzz
    folder=build-tsan
    configure "$folder" -DCMAKE_CXX_COMPILER="$(clang_program)" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DPODIUM_TESTS=ON \
      -DPODIUM_WERROR=ON -DPODIUM_UNITY=ON -DPODIUM_SANITIZE=thread
    targets=(base_test parallel_test data_test backend_test backend_cuda_emulated_test law_test)
    # Left out: long tests with one thread, those that compare backends and vector targets, and of the placements, faults, audits and
    # recurrent networks those whose threads are the others', too.
    tests=(-L '^(quick|law)$'
      -E '^Gpus[.]a_network_for_images|[.]a_gpu_translates|^Detached[.]|Placement[.]a_gpu|Audit[.](lets_a_run_go_on_by|ends_a_run)|RecurrentLaw[.](layers_that|state_goes)|Data[.]normalised|Faults[.].*load$|adam_bf16|^Cuda[.]|[.]every_backend|RowsLaw[.]the_metric|^Frozen[.]layers_in_the_middle|^Audit[.]of_several_ranks|AuditOf|PlacementOfOptimizers.*/(sgd|muon|lars|adam$)|^Bf16Products|^Cuda(Winograd|Products|Convolutions|Planes)|GoldenHashes|FirstSteps|PlacementOfRecipes|AllOps|Fusion|Data.(augmented|recipes_of)|^(Functions|ImageFile|Cifar10|RealCifar10)[.]|a_linear_model|^Placement[.](trees_that_are_no_powers|the_reference_backend|every_vector_target)|^(Each/)?Bf16[.]has_(the_hashes|other)|^RoundedActivations')
    ;;
  *) fail "usage: scripts/sanitize.sh address,undefined|thread [ctest arguments]" ;;
esac
say "building with -fsanitize=$kind"
build "$folder" "${targets[@]}"
say "running tests with -fsanitize=$kind"
cd "$root/$folder"
# Address space randomisation of 32 bits, which newer kernels use, is more than this ThreadSanitizer can map.
# Of the random shapes of each operation a part: all of them take as long as everything else. scripts/test.sh draws them all.
export PODIUM_CASES=${PODIUM_CASES:-8}
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# One more than there are cores: some tests wait for processes or for a time that passes.
exec setarch --addr-no-randomize ctest --output-on-failure --no-tests=error --parallel $((jobs + 1)) "${tests[@]}" "$@"
