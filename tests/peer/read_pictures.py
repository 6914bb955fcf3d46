#!/usr/bin/env python3
"""How many photographs a second other programs prepare on one core, as `podium bench data imagenette-resnet18` measures it:

    python3 tests/peer/read_pictures.py PHOTOS [--pictures 206] [--only torchvision]

Files lie in memory. Each is decoded, cropped at random (35 to 100% of the area), resized to 224 x 224 with anti-aliasing,
flipped at random and normalised to floats. Prints a line of JSON for each program: the best of several rounds. Measures those
of torchvision (with Pillow, and with decode_jpeg) and NVIDIA DALI (on the CPU) that can be imported.
"""
import argparse
import json
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"
SIZE, AREA, RATIO = 224, (0.35, 1.0), (3 / 4, 4 / 3)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def files_of(folder, count):
    paths = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    paths = [path for path in paths if path.lower().endswith((".jpg", ".jpeg"))]
    chosen = [paths[i * len(paths) // count] for i in range(min(count, len(paths)))]
    return [open(path, "rb").read() for path in chosen]


def report(program, version, files, one_round):
    one_round()
    seconds = min(timed(one_round) for _ in range(5))
    print(json.dumps({"program": program, "version": version, "pictures": len(files), "photographs_per_s": round(len(files) / seconds, 1)}),
          flush=True)


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def torchvision_rounds(files):
    import io

    import torch
    import torchvision
    from PIL import Image
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    crop = [v2.RandomResizedCrop(SIZE, scale=AREA, ratio=RATIO, antialias=True), v2.RandomHorizontalFlip()]
    to_floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    with_pillow, with_tensors = v2.Compose(crop + [v2.ToImage()] + to_floats), v2.Compose(crop + to_floats)
    tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
    version = f"torchvision {torchvision.__version__}"

    def pillow():
        for file in files:
            with_pillow(Image.open(io.BytesIO(file)).convert("RGB"))

    def decoded():
        for file in tensors:
            with_tensors(decode_jpeg(file, mode=ImageReadMode.RGB))

    report("torchvision, Pillow", version, files, pillow)
    report("torchvision, decode_jpeg", version, files, decoded)


def dali_rounds(files):
    import numpy
    from nvidia import dali
    from nvidia.dali import fn, pipeline_def, types

    arrays, batch = [numpy.frombuffer(file, dtype=numpy.uint8) for file in files], 32

    @pipeline_def(batch_size=batch, num_threads=1, device_id=None, prefetch_queue_depth=1, seed=1)
    def examples():
        file = fn.external_source(source=lambda at: arrays[at.idx_in_epoch % len(arrays)], batch=False, dtype=types.UINT8)
        picture = fn.decoders.image_random_crop(file, device="cpu", random_area=AREA, random_aspect_ratio=RATIO, num_attempts=10)
        picture = fn.resize(picture, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(picture, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW",
                                        mean=[255 * m for m in MEAN], std=[255 * d for d in DEVIATION])

    pipeline = examples()
    pipeline.build()

    def one_round():
        for _ in range(0, len(files), batch):
            pipeline.run()

    # Whole batches.
    rounded = [None] * (-(-len(files) // batch) * batch)
    report("DALI on the CPU", f"DALI {dali.__version__}", rounded, one_round)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--pictures", type=int, default=206)
    parser.add_argument("--only", choices=("torchvision", "dali"))
    args = parser.parse_args()
    files = files_of(args.photos, args.pictures)
    for name, rounds in (("torchvision", torchvision_rounds), ("dali", dali_rounds)):
        if args.only not in (None, name):
            continue
        try:
            rounds(files)
        except ImportError as error:
            print(json.dumps({"program": name, "skipped": str(error)}))


if __name__ == "__main__":
    main()
