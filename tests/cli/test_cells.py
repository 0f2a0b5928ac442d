"""AnnData files on the command line."""

import numpy as np
import pandas as pd
import pytest

anndata = pytest.importorskip("anndata")


def test_cells_are_learned_and_predicted(tmp_path, run):
    rng = np.random.default_rng(0)
    donor = rng.permutation(np.repeat([f"d{i}" for i in range(8)], 6))
    obs = pd.DataFrame({"donor": donor}, index=[f"c{i}" for i in range(len(donor))])
    obs["disease"] = np.where(donor < "d4", "covid", "healthy")
    cells = anndata.AnnData(rng.normal(size=(len(donor), 4)).astype(np.float32), obs=obs)
    path, model, out = (tmp_path / name for name in ("cells.h5ad", "m.skops", "out.csv"))
    cells.write_h5ad(path)
    run.ok("fit", path, "--bag", "donor", "--label", "disease", "-m", "nsk", "-o", model)
    shuffled = cells[rng.permutation(len(donor)), ::-1]  # other order of cells and genes
    del shuffled.obs["disease"]
    shuffled.write_h5ad(tmp_path / "new.h5ad")
    run.ok("predict", model, tmp_path / "new.h5ad", "-o", out)
    assert pd.read_csv(out).bag.tolist() == list(dict.fromkeys(shuffled.obs.donor))
