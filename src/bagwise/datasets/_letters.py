"""Letter-Carroll and Letter-Frost: the words of a poem as bags of letters."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from bagwise.bags import Bags, offsets_of
from bagwise.datasets._bag_sets import label_set_bunch
from bagwise.datasets._draw import indicator, random_generator
from bagwise.datasets._plain_sets import LETTER_FEATURES, LETTERS, load_letter
from bagwise.datasets._registry import PACKAGE_DATA, bag_bunch, dataset_info, read_dataset


def load_letter_carroll(random_state: Any = 0, *, published_words: bool = False) -> Bunch:
    """Load Letter-Carroll: the words of Jabberwocky as bags of letters (shipped with bagwise).

    Each letter of a word is a row of UCI Letter of that class, drawn without replacement; the
    label set of a word is the set of its letters. The published sample is not available: the
    words are the same, but the rows differ.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Seed for drawing rows of UCI Letter.
    published_words : bool, default=False
        False: words are split at the hyphen and the one-letter word "O" is left out, which gives
        the published 166 bags and 717 instances. True: "snicker-snack" is one word, "O" is kept
        and "hast" reads "has", as in many copies of the poem; only this variant also gives the
        published one bag with a single label and 3.93 labels per bag.

    Returns
    -------
    Bunch
        - ``bags``: 166 words, 717 letters, 16 features; ``bags.ids`` are position and word;
        - ``label_sets``: (166, 26) zeros and ones; Q and Z never occur;
        - ``instance_labels``: the letter of each instance, an index into ``classes``;
        - ``classes``: the letters A to Z;
        - ``letter_row``: (717,) the row of :func:`load_letter` of each instance;
        - ``feature_names``, ``DESCR``.

    References
    ----------
    Briggs, Fern & Raich, "Rank-loss support instance machines for MIML instance annotation",
    KDD 2012; counts in Pham et al. 2014 (Table 1) and Pei & Fern 2014 (Table 2).

    Examples
    --------
    >>> from bagwise.datasets import load_letter_carroll
    >>> carroll = load_letter_carroll(random_state=0)
    >>> carroll.bags
    Bags(n_bags=166, n_instances=717, n_features=16, dtype=float64)
    >>> carroll.bags.ids[:2].tolist()
    ['000 Twas', '001 brillig']
    >>> carroll.classes[carroll.label_sets[1] == 1].tolist()
    ['B', 'G', 'I', 'L', 'R']
    """
    poem = _poem("jabberwocky.txt")
    if published_words:
        words = re.findall(r"[A-Za-z-]*[A-Za-z]", poem.replace("hast thou", "has thou"))
    else:
        words = re.findall(r"[A-Za-z]{2,}", poem)
    return _letters_of("letter_carroll", words, random_state)


def load_letter_frost(random_state: Any = 0) -> Bunch:
    """Load Letter-Frost: the words of The Road Not Taken as bags of letters (shipped).

    As :func:`load_letter_carroll`, with Robert Frost's poem. All words are kept, also "I" and "a",
    which gives every published count.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=0
        Seed for drawing rows of UCI Letter.

    Returns
    -------
    Bunch
        - ``bags``: 144 words, 565 letters, 16 features; ``bags.ids`` are position and word;
        - ``label_sets``: (144, 26) zeros and ones; X and Z never occur;
        - ``instance_labels``, ``classes``, ``letter_row``, ``feature_names``, ``DESCR`` as in
          :func:`load_letter_carroll`.

    Examples
    --------
    >>> from bagwise.datasets import load_letter_frost
    >>> load_letter_frost(random_state=0).bags
    Bags(n_bags=144, n_instances=565, n_features=16, dtype=float64)
    """
    words = re.findall(r"[A-Za-z]+", _poem("the_road_not_taken.txt"))
    return _letters_of("letter_frost", words, random_state)


def load_letter_carroll_redraw() -> Bunch:
    """Load one fixed draw of Letter-Carroll (from the data home).

    The words of :func:`load_letter_carroll`, other rows of UCI Letter. This is not the
    published sample either: do not compare results exactly with published ones.

    Returns
    -------
    Bunch
        As :func:`load_letter_carroll`.

    Raises
    ------
    DataNotFoundError
        When the file is not in the data home.
    FileFormatError
        When the file is damaged.
    """
    info = dataset_info("letter_carroll_redraw")
    arrays = read_dataset(info, ["X", "bag", "Y", "instance_labels", "classes", "letter_row"])
    bunch = label_set_bunch(info, arrays, arrays["Y"], feature_names=LETTER_FEATURES)
    words = bunch.bags.split(bunch.classes[bunch.instance_labels])
    ids = _ids(["".join(letters) for letters in words])
    bunch.bags = Bags(bunch.bags.instances, bunch.bags.offsets, ids, feature_names=LETTER_FEATURES)
    bunch.letter_row = arrays["letter_row"].astype(np.int64)
    return bunch


def _poem(file: str) -> str:
    return (PACKAGE_DATA / file).read_text(encoding="utf-8")


def _letters_of(name: str, words: list[str], random_state: Any) -> Bunch:
    """Make a bag of each word; its letters are drawn from UCI Letter without replacement."""
    rng = random_generator(random_state)
    letter = load_letter()
    spelled = [re.sub("[^A-Z]", "", word.upper()) for word in words]
    instance_labels = np.searchsorted(LETTERS, list("".join(spelled)))
    rows = np.empty(len(instance_labels), dtype=np.int64)
    for c in np.unique(instance_labels):
        places = np.flatnonzero(instance_labels == c)
        rows[places] = rng.choice(np.flatnonzero(letter.y == c), size=len(places), replace=False)
    offsets = offsets_of([len(word) for word in spelled])
    bags = Bags(letter.X[rows], offsets, _ids(words), feature_names=LETTER_FEATURES)
    return bag_bunch(
        name,
        bags,
        label_sets=indicator(bags.bag_index, instance_labels, (len(bags), len(LETTERS))),
        instance_labels=instance_labels,
        classes=LETTERS.copy(),
        letter_row=rows,
    )


def _ids(words: list[str]) -> NDArray[np.str_]:
    return np.array([f"{i:03d} {word}" for i, word in enumerate(words)])
