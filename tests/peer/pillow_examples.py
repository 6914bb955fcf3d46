#!/usr/bin/env python3
"""What Pillow makes of photographs, for the test Picture.photographs_are_those_of_pillow.

    python3 tests/peer/pillow_examples.py PHOTOS > expected.txt        (needs Pillow)
    PODIUM_PILLOW=expected.txt build/src/data/data_test --gtest_filter='Picture.photographs*'

A line is the SHA-256 of torchvision's Resize(256) and CenterCrop(224) of a picture, as planes of red, green and
blue, then its path.
"""
import hashlib
import os
import sys

from PIL import Image


def example(path):
    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    if width <= height:
        size = (256, int(256 * height / width))
    else:
        size = (int(256 * width / height), 256)
    picture = picture.resize(size, Image.BILINEAR)
    top, left = int(round((size[1] - 224) / 2.0)), int(round((size[0] - 224) / 2.0))
    picture = picture.crop((left, top, left + 224, top + 224))
    return b"".join(channel.tobytes() for channel in picture.split())


for folder, folders, files in os.walk(sys.argv[1]):
    folders.sort()
    for name in sorted(files):
        if name.lower().endswith((".jpg", ".jpeg", ".png")):
            path = os.path.abspath(os.path.join(folder, name))
            print(hashlib.sha256(example(path)).hexdigest(), path)
