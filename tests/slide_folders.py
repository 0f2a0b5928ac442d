"""Folders of HDF5 files, as bagwise 0.2 wrote them."""

import json

from bagwise.labels import Labels


def write_slides(folder, bags, *, y=None, sets=None, classes=None, instance_labels=None):
    """Write a file per bag, and ``bags.json`` with the rest; sets are lists of positions."""
    import h5py

    folder.mkdir()
    files = [f"bag_{i}.h5" for i in range(len(bags))]
    for i, name in enumerate(files):
        with h5py.File(folder / name, "w") as file:
            file["features"] = bags[i]
            if instance_labels is not None:
                file["instance_labels"] = bags.split(instance_labels)[i]
    notes = {"bagwise": 1, "files": files, "feature_names": bags.feature_names}
    notes["ids"] = None if bags.ids is None else bags.ids.tolist()
    notes["y"] = None if y is None else Labels.from_values(y, classes=(-1,)).tolist()
    notes |= {"classes": classes, "n_classes": len(classes or ()), "label_sets": sets}
    (folder / "bags.json").write_text(json.dumps(notes))
    return folder
