"""Counts the floating-point instructions of every CUDA kernel in the code that the GPU runs (SASS), and compares
them with what the contracts and the kernel's templates say. docs/kernels-cuda.md says what is compared.

    check_sass.py BUILD --cuobjdump FILE --nvdisasm FILE                 of the objects in a build folder
    check_sass.py BUILD --nvdisasm FILE --arch 75 --arch 90a             compiles the kernels anew for these GPUs

With --arch it also fails if a kernel spills registers, or waits for each product of a warpgroup. Exit code 77: skipped, with the reason.
"""

import argparse
import collections
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SKIPPED = 77

# Per application of a transform to one axis: fma, add, mul (docs/numerics.md; kernels/winograd_transforms.h). Those of the
# smallest constants are moves and negations.
TRANSFORMS = {
    "b": {4: (8, 4, 2), 6: (24, 0, 0), 8: (40, 0, 0)},
    "at": {4: (4, 6, 2), 6: (10, 10, 0), 8: (22, 12, 6)},
    "a": {4: (4, 4, 2), 6: (18, 0, 0), 8: (32, 0, 0)},
    "g": {4: (6, 0, 3), 6: (9, 0, 3), 8: (12, 0, 5)},
    "gt": {4: (5, 4, 2), 6: (8, 6, 2), 8: (11, 8, 2)},
}
# Of the fma, those that multiply by 1 or -1: nvcc writes an addition for GPUs from 10.0 on, which has the same bits.
UNITS = {"b": {6: 6}, "a": {6: 6}, "gt": {6: 1}}
# Kernels with a loop of additions or of fma alone that ptxas may unroll: it then has more of the same, and nothing else. And
# those in which it makes some sums of two values a second time instead of keeping them.
REPEATED = ("outputs_kernel<6", "filter_points_kernel<6", "square_sums_kernel(", "add_runs(", "image_sums_kernel(", "image_sums_kernel<", "avg_pool(", "batch_mean_kernel(",
            "conv2d_bf16_grad_weight(", "attention(", "attention_grad(", "softmax_rows_kernel(")
# Kernels with a switch over activations, or with the two branches of tanh, of which ptxas may merge equal ends of two branches: then a few products and fma are
# there once. A contraction would take additions away, of which all must be there.
MERGED = ("gradient_before_activation", "lstm_grad(", "gru(")


class Counts(collections.Counter):
    def __str__(self):
        return ", ".join(f"{self[k]} {k}" for k in ("fma", "add", "mul"))


def run(*command, **options):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    return result.stdout + result.stderr


def counts_of_ptx(text, complain):
    """Operations of each kernel: fma, add (and sub), mul, div, sqrt, rcp."""
    kernels, kernel = {}, None
    for line in text.splitlines():
        if entry := re.search(r"\.entry\s+(\w+)", line):
            kernel = kernels.setdefault(entry[1], Counts())
            name = entry[1]
        elif re.match(r"\s*(\.\w+\s+)*\.func\b", line):
            kernel = None
        found = re.match(r"\s*(?:@!?%\w+\s+)?(fma|add|sub|mul|mad|div|sqrt|rcp|rsqrt|ex2|lg2|sin|cos|tanh)(\.\S*)?\.f32\b", line)
        if kernel is None or not found:
            continue
        operation, modifiers = found[1], found[2] or ""
        # Without .rn ptxas may contract; approximations and flushed subnormals are in no contract.
        if modifiers != ".rn":
            complain(f"{demangled(name)}: {operation}{modifiers}.f32 is not rounded to nearest")
        kernel["add" if operation == "sub" else operation] += 1
    return kernels


def counts_of_sass(text):
    kernels, kernel = {}, None
    for line in text.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.(\w+)", line):
            kernel = kernels.setdefault(section[1], Counts())
        found = re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(FFMA|FADD|FMUL|HGMMA)([.\w]*)\s+([^;]*);", line)
        if kernel is None or not found:
            continue
        if found[1] == "HGMMA":
            kernel["warpgroup"] += 1
            continue
        operation, operands = {"FFMA": "fma", "FADD": "add", "FMUL": "mul"}[found[1]], found[3]
        if operation == "add" and re.search(r"-RZ\b", operands):
            continue  # x + -0 is x: a move or a negation
        kernel[operation] += 1
    return kernels


def demangled(name, known={}):
    if name not in known:
        known[name] = subprocess.run(["c++filt", name], capture_output=True, text=True, check=False).stdout.strip() or name
    return known[name]


# --- what a division, a square root and a reciprocal become, by this ptxas: so much for each, and so much once for all of a kernel


def probe(operation, times):
    """A PTX kernel that does nothing but `times` of an operation."""
    operands = "%f1, %f2" if operation == "div" else "%f1"
    body = "".join(
        f"ld.global.f32 %f1, [%rd1+{8 * i}]; ld.global.f32 %f2, [%rd1+{8 * i + 4}];\n"
        f"{operation}.rn.f32 %f3, {operands}; st.global.f32 [%rd1+{8 * i}], %f3;\n"
        for i in range(times))
    return (f".visible .entry {operation}_{times}(.param .u64 p) {{\n.reg .f32 %f<4>; .reg .b64 %rd<2>;\n"
            f"ld.param.u64 %rd1, [p];\n{body}ret;\n}}\n")


def number_of(arch):
    return int(re.match(r"\d+", arch)[0])


def expansions(tools, arch, folder):
    source = folder / f"probe_{arch}.ptx"
    names = ("div", "sqrt", "rcp")
    source.write_text(f".version 7.8\n.target sm_{min(number_of(arch), 90)}\n.address_size 64\n" +
                      "".join(probe(name, times) for name in names for times in (1, 2)))
    cubin = folder / f"probe_{arch}.cubin"
    run(tools.ptxas, f"-arch=sm_{arch}", "-O3", source, "-o", cubin)
    found = counts_of_sass(run(tools.nvdisasm, "-c", cubin))
    result = {}
    for name in names:
        one, two = found[f"{name}_1"], found[f"{name}_2"]
        each = Counts({k: two[k] - one[k] for k in ("fma", "add", "mul")})
        result[name] = each, Counts({k: one[k] - each[k] for k in ("fma", "add", "mul")})
    return result


def expanded(ptx, expansion):
    """The counts that a kernel's PTX becomes, if ptxas contracts, adds and drops nothing."""
    total = Counts({k: ptx[k] for k in ("fma", "add", "mul")})
    for name, (each, shared) in expansion.items():
        for k in ("fma", "add", "mul"):
            total[k] += each[k] * ptx[name] + (shared[k] if ptx[name] else 0)
    return total


# --- what a kernel's templates say


def implied(name, arch):
    """The counts that the templates of a kernel imply, or None where they imply none."""
    if tile := re.search(r"(?:gather|matmul|matmul_runs|wide|wide_sums|products)_kernel<[\w:]*Tile<\d+, \d+, (\d+), (\d+)>", name):
        sums = int(tile[1]) * int(tile[2])
        # A term of each sum, 16 times in a whole slice and once in the loop over a short one.
        fma, ends = 17 * sums, 2 * sums  # a run ends before a slice of another, or at the end
        if "gather_kernel" in name:
            # And once where a mask says which columns count; slices of which all terms share a tap are always whole.
            return Counts(fma=fma if name.split(">(")[0].endswith("true") else 18 * sums)
        if "matmul_runs_kernel" in name or re.search(r"(wide_kernel|wide_sums_kernel|products_kernel)<.*?>, true>", name):
            return Counts(fma=fma)
        # Four at once, or one by one.
        to_what_is_there = 2 * sums if re.search(r"matmul_kernel<.*?>, true>", name) else 0
        return Counts(fma=fma, add=ends + to_what_is_there)
    if chains := re.search(r"image_chains_kernel<.*Chains<(\d), (\d)>, (true|false)>", name):
        filters, taps, dense = int(chains[1]), int(chains[2]), chains[3] == "true"
        # Of so many pixels (ahead() there), at an edge or in the middle.
        if dense:
            pixels = 16 if filters == 2 else 6 if taps == 3 else 8
        else:
            pixels = 8 if (filters == 2) == (taps == 4) else 6
        return Counts(fma=filters * taps * 2 * pixels)
    found = re.search(r"(patch_points|gradient_points|outputs|filter_points|filter_gradients)_kernel<(\d)", name)
    if not found or "ImageSource<true>" in name:  # which normalises each pixel
        return None
    m = int(found[2])
    # Columns of the input and rows of the intermediate, each transformed once.
    kind, times = {
        "patch_points": ("b", 2 * (m + 2)),
        "gradient_points": ("a", m + m + 2),
        "outputs": ("at", m + 2 + m),
        "filter_points": ("g", 3 + m + 2),
        "filter_gradients": ("gt", m + 2 + 3),
    }[found[1]]
    fma, add, mul = TRANSFORMS[kind][m]
    units = UNITS.get(kind, {}).get(m, 0) if number_of(arch) >= 100 else 0
    return Counts(fma=times * (fma - units), add=times * (add + units), mul=times * mul)


def compare(ptx, sass, expansion, arch, complain):
    for kernel, of_ptx in ptx.items():
        name = demangled(kernel)
        short = re.sub(r"podium::cuda::(\(anonymous namespace\)::)?", "", name)[:110]
        if kernel not in sass:
            complain(f"{short}: the GPU's code lacks it")
            continue
        wanted, found = expanded(of_ptx, expansion), sass[kernel]
        repeated = any(part in name for part in REPEATED)
        merged = any(part in name for part in MERGED) and found["add"] == wanted["add"]
        for k in ("fma", "add", "mul"):
            equal = found[k] == wanted[k] or (repeated and found[k] >= wanted[k] > 0) or (merged and 0 <= wanted[k] - found[k] <= 8)
            if not equal:
                complain(f"{short}: {found[k]} {k}, expected {wanted[k]}")
        # Of warpgroups where the GPU has them; elsewhere these kernels are empty.
        products = arch == "90a" and "WarpgroupTile" in name
        if (found["warpgroup"] > 0) != products:
            complain(f"{short}: {found['warpgroup']} products of warpgroups")
        by_template = implied(name, arch)
        if by_template is not None and any(of_ptx[k] != by_template[k] for k in ("fma", "add", "mul")):
            complain(f"{short}: its PTX has {of_ptx}; its templates imply {by_template}")


# --- the code of both kinds, from a build or compiled here


def embedded(tools, obj, folder):
    """{architecture: (PTX, cubin)} of an object of nvcc that has both."""
    where = folder / obj.name
    where.mkdir()
    for option in ("-xptx", "-xelf"):
        run(tools.cuobjdump, option, "all", obj.resolve(), cwd=where)
    files = {}
    for file in where.iterdir():
        if found := re.search(r"\.sm_(\d+\w?)\.(ptx|cubin)$", file.name):
            files.setdefault(found[1], {})[found[2]] = file
    return {arch: (both["ptx"], both["cubin"]) for arch, both in files.items() if len(both) == 2}


def compiled(tools, command, source, arch, folder, complain):
    words = [w for w in shlex.split(command) if "generate-code" not in w and not w.startswith("-Xptxas")]
    words = words[next(i for i, w in enumerate(words) if pathlib.Path(w).name.startswith("nvcc")):]
    at = words.index("-o")
    ptx, cubin = folder / f"{source.stem}_{arch}.ptx", folder / f"{source.stem}_{arch}.cubin"
    words[at + 1] = str(ptx)
    words[words.index("-c")] = "-ptx"
    run(*words, f"-arch=compute_{arch}")
    log = run(tools.ptxas, "-v", f"-arch=sm_{arch}", "-O3", ptx, "-o", cubin)
    kernel = ""
    for line in log.splitlines():
        if found := re.search(r"wgmma.* serialized .*in the function '(\w+)'", line):
            complain(f"{demangled(found[1])[:110]} waits for each product of a warpgroup")
        if found := re.search(r"Function properties for (\w+)|Compiling entry function '(\w+)'", line):
            kernel = found[1] or found[2]
        if (found := re.search(r"(\d+) bytes spill stores", line)) and int(found[1]) > 0:
            complain(f"{demangled(kernel)[:110]} spills {found[1]} bytes")
    return ptx, cubin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cuobjdump")
    parser.add_argument("--nvdisasm", required=True)
    parser.add_argument("--arch", action="append", default=[])
    tools = parser.parse_args()
    for tool in (tools.nvdisasm, tools.cuobjdump or tools.nvdisasm):
        if not pathlib.Path(tool).exists():
            print(f"skipped: {tool} is not on this machine (scripts/install-dependencies.sh sass)")
            return SKIPPED
    commands = [c for c in json.loads((tools.build / "compile_commands.json").read_text()) if c["file"].endswith(".cu") and "nvcc" in c["command"]]
    if not commands:
        print("skipped: this build has no kernels for GPUs (no nvcc)")
        return SKIPPED
    nvcc = next(w for w in shlex.split(commands[0]["command"]) if pathlib.Path(w).name.startswith("nvcc"))
    tools.ptxas = pathlib.Path(nvcc).resolve().with_name("ptxas")
    faults, kernels, checked = [], 0, set()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        of_arch = {}  # expansions
        for command in commands:
            source = pathlib.Path(command["file"])
            complain = lambda text, source=source: faults.append(f"{source.name}: {text}")
            if tools.arch:
                codes = {arch: compiled(tools, command["command"], source, arch, folder, complain) for arch in tools.arch}
            else:
                words = shlex.split(command["command"])
                codes = embedded(tools, pathlib.Path(command["directory"]) / words[words.index("-o") + 1], folder)
            for arch, (ptx, cubin) in codes.items():
                if arch not in of_arch:
                    of_arch[arch] = expansions(tools, arch, folder)
                complain_here = lambda text, arch=arch, complain=complain: complain(f"sm_{arch}: {text}")
                of_ptx = counts_of_ptx(ptx.read_text(), complain_here)
                compare(of_ptx, counts_of_sass(run(tools.nvdisasm, "-c", cubin)), of_arch[arch], arch, complain_here)
                kernels += len(of_ptx)
                checked.add(arch)
    if not checked:
        print("skipped: the build has no PTX beside the GPU's code; set CUDAARCHS to a number without -real, such as 90a")
        return SKIPPED
    for fault in faults:
        print(fault)
    print(f"{kernels} kernels for {', '.join(f'sm_{arch}' for arch in sorted(checked, key=number_of))}: {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
