"""How often is the key conformer the bioactive one? `python -m benchmarks.key_conformers`.

Bioactive conformers are planted: of the 20 conformers of a molecule, the one nearest to a pocket
determines pKi, so that a random conformer is the right one in .05 of the molecules. The shapes are
eight numbers per conformer, of which three matter, as in `examples/plot_conformers.py`. Models are
fitted on 200 molecules and judged by `bagwise.predictions.score_keys` on 200 others, of the same
scaffolds and of new ones.
"""

import argparse

import numpy as np

from bagwise import Bags
from bagwise.auto._methods import METHODS, make_model
from bagwise.predictions import score_keys

N_CONFORMERS, N_SHAPES, N_MOLECULES = 20, 8, 200
RIVALS = ("nsk", "minimax", "pooled-trees")


def drawn(rng: np.random.Generator, pocket: np.ndarray, cores: np.ndarray) -> tuple:
    """Molecules, their pKi, and which of their conformers is the bioactive one."""
    which = rng.integers(len(cores), size=N_MOLECULES)
    own = cores[which] + 0.6 * rng.normal(size=(N_MOLECULES, N_SHAPES))
    shapes = own[:, None] + 0.7 * rng.normal(size=(N_MOLECULES, N_CONFORMERS, N_SHAPES))
    away = np.linalg.norm(shapes[:, :, :3] - pocket, axis=2)
    pki = 8.5 - 0.9 * away.min(axis=1) + 0.2 * rng.normal(size=N_MOLECULES)
    return Bags.from_arrays(shapes), pki, (away == away.min(axis=1, keepdims=True)).ravel()


def measured(name: str, seed: int) -> list[float]:
    """Share of bioactive conformers found: in the scaffolds of the fit, in others, by chance."""
    rng = np.random.default_rng(seed)
    pocket, cores = rng.normal(size=3), 1.3 * rng.normal(size=(100, N_SHAPES))
    bags, pki, _ = drawn(rng, pocket, cores[:50])
    model = make_model(METHODS[name].for_numbers(), {}).fit(bags, pki)
    found = [score_keys(model, *drawn(rng, pocket, own)[::2]) for own in (cores[:50], cores[50:])]
    return [found[0].found, found[1].found, found[0].chance]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| method | scaffolds of the fit | new scaffolds | chance |\n|---|---:|---:|---:|")
    for name in RIVALS:
        means = np.mean([measured(name, seed) for seed in range(options.seeds)], axis=0)
        print(f"| {name} | " + " | ".join(f"{mean:.2f}"[1:] for mean in means) + " |", flush=True)


if __name__ == "__main__":
    main()
