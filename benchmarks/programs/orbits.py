"""usage: orbits.py [BODIES [STEPS]]

Planets around a sun, each pair attracting each other: numbers and lists of Python alone. Checked by the total energy.
"""

import math
import sys


def make_system(bodies):
    """Positions, speeds and masses: a heavy sun, and planets on circles around it."""
    positions, speeds, masses = [[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0]], [1.0]
    for number in range(1, bodies):
        radius, angle = 1.0 + 0.7 * number, 2.4 * number
        speed = 1 / math.sqrt(radius)
        positions.append([radius * math.cos(angle), radius * math.sin(angle), 0.01 * (number % 3)])
        speeds.append([-speed * math.sin(angle), speed * math.cos(angle), 0.0])
        masses.append(1e-4 / number)
    return positions, speeds, masses


def advance(positions, speeds, masses, time):
    bodies = len(positions)
    for i in range(bodies):
        x, y, z = positions[i]
        speed = speeds[i]
        for j in range(i + 1, bodies):
            other, other_speed = positions[j], speeds[j]
            dx, dy, dz = x - other[0], y - other[1], z - other[2]
            distance2 = dx * dx + dy * dy + dz * dz
            strength = time / (distance2 * math.sqrt(distance2))
            pull, other_pull = strength * masses[j], strength * masses[i]
            speed[0] -= dx * pull
            speed[1] -= dy * pull
            speed[2] -= dz * pull
            other_speed[0] += dx * other_pull
            other_speed[1] += dy * other_pull
            other_speed[2] += dz * other_pull
    for position, speed in zip(positions, speeds, strict=True):
        for axis in range(3):
            position[axis] += time * speed[axis]


def energy(positions, speeds, masses):
    total = 0.0
    for i, mass in enumerate(masses):
        total += 0.5 * mass * sum(v * v for v in speeds[i])
        for j in range(i):
            total -= mass * masses[j] / math.dist(positions[i], positions[j])
    return total


def main():
    bodies = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 9001
    system = make_system(bodies)
    before = energy(*system)
    for _ in range(steps):
        advance(*system, 0.002)
    after = energy(*system)
    print(f"bodies {bodies}  steps {steps}  change of energy {abs(after / before - 1):.0e}  checksum {after:.12e}")


if __name__ == "__main__":
    main()
