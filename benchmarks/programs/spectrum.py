"""usage: spectrum.py [SAMPLES [FRAMES]]

Tones in noise, found again frame by frame: NumPy's Fourier transforms, sines, reductions along axes and sorting.
"""

import sys

import numpy as np


def make_signal(samples, seed=55):
    """Four tones that come and go, and noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / samples
    signal = rng.normal(scale=0.4, size=samples)
    for pitch in (701.0, 1409.0, 3001.0, 4507.0):
        signal += np.sin(2 * np.pi * pitch * time) * np.exp(-((time - rng.random()) ** 2) / 0.02)
    return signal


def find_tones(signal, frames):
    """The strongest frequencies of each frame, and how far they stand out."""
    length = len(signal) // frames
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    power = np.abs(np.fft.rfft(signal[: frames * length].reshape(frames, length) * window, axis=1)) ** 2
    level = np.median(power, axis=1, keepdims=True)
    strongest = np.argsort(power, axis=1)[:, -3:]
    smooth = power[:, :-2] + 2 * power[:, 1:-1] + power[:, 2:]
    loud = (smooth > 40 * level) & (smooth == smooth.max(axis=1, keepdims=True))
    return strongest, 10 * np.log10(power.max(axis=1) / level[:, 0]), loud.sum()


def main():
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1300013
    frames = int(sys.argv[2]) if len(sys.argv) > 2 else 331
    signal = make_signal(samples)
    strongest, decibels, loud = find_tones(signal, frames)
    spread = np.sqrt(np.mean((signal - signal.mean()) ** 2))
    print(f"frames {frames}  loud {loud}  decibels {decibels.mean():.6f}  checksum {strongest.sum() * spread:.8f}")


if __name__ == "__main__":
    main()
