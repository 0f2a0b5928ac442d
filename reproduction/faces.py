"""Names and faces: a substitute for Labeled Yahoo! News, whose features are not available."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from bagwise._common.types import Floats, Ints
from bagwise.bags import Bags, offsets_of
from bagwise.datasets._registry import bag_bunch
from bagwise.exceptions import InputError
from reproduction.row_data import info_of

__all__ = ["make_names_and_faces"]

# Law et al. 2017: numbers of photos, out of 20,071, with 1, 2, ... faces (Table 5), and with 0, 1,
# 2, ... names that are truly present (Table 6 b) or in the caption (Table 6 c).
PHOTOS_WITH_FACES = (12562, 5109, 1675, 480, 146, 61, 17, 8, 6, 0, 1, 3, 1, 1, 1)
PHOTOS_WITH_TRUE_NAMES = (1384, 16196, 2295, 181, 8, 3, 1, 2, 0, 1)
PHOTOS_WITH_CAPTION_NAMES = (0, 12225, 6247, 1325, 216, 46, 8, 3, 0, 1)
N_PHOTOS, N_PEOPLE = 20071, 5873


def make_names_and_faces(
    n_bags: int = 1000,
    n_categories: int | None = None,
    *,
    n_features: int = 50,
    n_latent: int = 12,
    noise: float = 0.6,
    nuisance: float = 1.0,
    name_recall: float = 0.9,
    random_state: Any = None,
) -> Bunch:
    r"""Generate news photos: bags of faces, with the names of the people in them.

    Numbers of faces, of true names and of caption names per photo follow Tables 5 and 6 of the
    MIMLCA paper: exactly for ``n_bags=20071``, as a sample for fewer. The first names are
    the most frequent (the r-th has a share proportional to 1/r; each occurs at least once if
    there are enough faces), and at full size about 50 people have five faces in a tenth of the
    photos, as in the paper. No name has two faces in one photo.

    A face of person c is :math:`x = A (m_c + \sigma e) + \nu B f + \epsilon`: the person's centre
    :math:`m_c` and noise in a subspace A of `n_latent` dimensions, uninformative variation in
    another subspace B (light, pose), and a little noise in all dimensions. A metric has to find A.
    With the defaults, the nearest centroid at full size is about as accurate as in the paper's
    Table 1: precision .50 in the Euclidean metric (paper .57) and .79 with the
    instances' names known (MLCA, paper .78).

    Parameters
    ----------
    n_bags : int, default=1000
        Number of photos.
    n_categories : int, default=None
        Number of people with a name; by default in the proportion of the paper, 5,873 for
        20,071 photos.
    n_features : int, default=50
        Length of a face vector; at least twice `n_latent`.
    n_latent : int, default=12
        Dimension of each of the two subspaces.
    noise : float, default=0.6
        Standard deviation of a person's faces around the centre; centres have 1.
    nuisance : float, default=1.0
        Standard deviation of the uninformative variation.
    name_recall : float, default=0.9
        Share of the true names that the caption mentions; the other names in it are wrong.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    Bunch
        - ``bags``: photos of faces;
        - ``instance_labels``: the person of each face, an index into ``classes``; -1 for faces
          without a name (scenario a);
        - ``label_sets``: (n_bags, n_categories) people in the photo (scenario b); may be empty;
        - ``automatic_label_sets``: names in the caption (scenario c); never empty, but with
          missing and wrong names;
        - ``classes``: the names; ``feature_names``: None; ``DESCR``.

    References
    ----------
    Law, Yu, Urtasun, Zemel & Xing, "Efficient multiple instance metric learning using weakly
    supervised data", CVPR 2017 (Section 4.1, Tables 5 and 6).

    Examples
    --------
    >>> from reproduction.faces import make_names_and_faces
    >>> news = make_names_and_faces(n_bags=100, random_state=0)
    >>> len(news.bags), news.label_sets.shape, news.automatic_label_sets.shape
    (100, (100, 29), (100, 29))
    """
    if n_categories is None:
        n_categories = max(1, round(n_bags * N_PEOPLE / N_PHOTOS))
    if n_features < 2 * n_latent:
        raise InputError(
            f"n_features is {n_features}: expected at least {2 * n_latent}, twice n_latent."
        )
    rng = check_random_state(random_state)

    sizes = _sample(rng, PHOTOS_WITH_FACES, n_bags) + 1
    capacity = np.minimum(sizes, n_categories)
    n_true = _fit_into(rng, _sample(rng, PHOTOS_WITH_TRUE_NAMES, n_bags), capacity)
    people = _People(rng, n_categories)
    true_names = people.cast(n_true)
    n_caption = _rank_alike(rng, _sample(rng, PHOTOS_WITH_CAPTION_NAMES, n_bags), n_true)
    captions = [
        people.caption(names, min(int(n), n_categories), name_recall)
        for names, n in zip(true_names, n_caption, strict=True)
    ]
    instance_labels = np.concatenate(
        [_place(rng, names, size) for names, size in zip(true_names, sizes, strict=True)]
    )
    X = _face_vectors(rng, instance_labels, n_categories, n_features, n_latent, noise, nuisance)
    return bag_bunch(
        info_of("names_and_faces"),
        Bags(X, offsets_of(sizes)),
        label_sets=_label_sets(true_names, n_categories),
        automatic_label_sets=_label_sets(captions, n_categories),
        instance_labels=instance_labels,
        classes=np.array([f"person {c}" for c in range(n_categories)]),
    )


# --- Counts -------------------------------------------------------------------------------------


def _sample(rng: np.random.RandomState, table: tuple[int, ...], n_bags: int) -> Ints:
    """Draw counts without replacement from a table; 20,071 bags use the whole table."""
    whole = np.repeat(np.arange(len(table)), table)
    rounds = [rng.permutation(whole) for _ in range(-(-n_bags // len(whole)))]
    return np.concatenate(rounds)[:n_bags]


def _fit_into(rng: np.random.RandomState, counts: Ints, capacity: Ints) -> Ints:
    """Assign the counts to photos at random, none larger than the capacity of the photo.

    Large counts are assigned first; a count for which no photo is left is lowered until it fits.
    """
    dealt = np.full(len(capacity), -1)
    waiting = 0
    for count in range(counts.max(), -1, -1):
        waiting += int(np.sum(counts == count))
        free = np.flatnonzero((dealt < 0) & (capacity >= count))
        chosen = rng.permutation(free)[:waiting]
        dealt[chosen] = count
        waiting -= len(chosen)
    return dealt


def _rank_alike(rng: np.random.RandomState, counts: Ints, like: Ints) -> Ints:
    """Assign larger counts where `like` is larger, ties at random."""
    order = np.argsort(like + rng.uniform(size=len(like)))
    dealt = np.empty_like(counts)
    dealt[order] = np.sort(counts)
    return dealt


# --- People -------------------------------------------------------------------------------------


class _People:
    """People with names, in decreasing order of frequency."""

    def __init__(self, rng: np.random.RandomState, n: int) -> None:
        fame = 1 / np.arange(1, n + 1)
        self.rng, self.n = rng, n
        self.cumulative = np.cumsum(fame / fame.sum())

    def draw(self, size: int) -> Ints:
        """Draw people by their frequency."""
        drawn = np.searchsorted(self.cumulative, self.rng.uniform(size=size), side="right")
        return np.minimum(drawn, self.n - 1)

    def cast(self, n_names: Ints) -> list[Ints]:
        """Choose distinct people for each photo, each person at least once if possible."""
        total = int(n_names.sum())
        everybody = np.arange(self.n)[:total]
        pool = self.rng.permutation(np.append(everybody, self.draw(total - len(everybody))))
        photos = np.split(pool, np.cumsum(n_names)[:-1])
        return [self.complete(np.unique(names), len(names), ()) for names in photos]

    def caption(self, names: Ints, n_names: int, recall: float) -> Ints:
        """Keep each true name with probability `recall`, and fill up with wrong ones."""
        kept = names[self.rng.uniform(size=len(names)) < recall][:n_names]
        wrong = self.n - len(names)
        return self.complete(kept, min(n_names, len(kept) + wrong), names)

    def complete(self, names: Ints, n_names: int, banned: Any) -> Ints:
        """Add people by frequency until there are `n_names` distinct ones."""
        chosen, excluded = list(names), {*names, *banned}
        while len(chosen) < n_names:
            (name,) = self.draw(1)
            if name not in excluded:
                chosen.append(name)
                excluded.add(name)
        return np.array(chosen, dtype=np.int64)


def _place(rng: np.random.RandomState, names: Ints, size: int) -> Ints:
    """Assign each name to a face of the photo, and -1 to the other faces."""
    return rng.permutation(np.append(names, np.full(size - len(names), -1)))


def _label_sets(names: list[Ints], n_classes: int) -> NDArray[np.uint8]:
    photo = np.repeat(np.arange(len(names)), [len(some) for some in names])
    label_sets = np.zeros((len(names), n_classes), dtype=np.uint8)
    label_sets[photo, np.concatenate(names)] = 1
    return label_sets


# --- Face vectors -------------------------------------------------------------------------------


def _face_vectors(
    rng: np.random.RandomState,
    instance_labels: Ints,
    n_categories: int,
    n_features: int,
    n_latent: int,
    noise: float,
    nuisance: float,
) -> Floats:
    n = len(instance_labels)
    centre = rng.standard_normal((n_categories, n_latent))[instance_labels]
    nameless = instance_labels < 0
    centre[nameless] = rng.standard_normal((nameless.sum(), n_latent))  # each is another person
    latent = np.hstack(
        [
            centre + noise * rng.standard_normal((n, n_latent)),
            nuisance * rng.standard_normal((n, n_latent)),
        ]
    )
    subspaces = np.linalg.qr(rng.standard_normal((n_features, 2 * n_latent)))[0]
    return latent @ subspaces.T + 0.05 * rng.standard_normal((n, n_features))
