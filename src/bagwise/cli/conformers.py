"""``bagwise conformers``: a table of conformers with 3-D descriptors, from SMILES."""

from collections import Counter
from pathlib import Path
from typing import Any

from bagwise.cli import options
from bagwise.cli.output import note, progress, refuse_existing
from bagwise.exceptions import InputError, counted

_SMILES = ("smiles", "canonical_smiles")  # in any case
_NAMES = ("molecule", "name", "id", "compound")


def conformers(
    file: Path = options.argument("CSV, TSV or Parquet with a SMILES per molecule.", "FILE"),
    output: Path = options.output("The table; its molecules are written beside it, .sdf.", "FILE"),
    smiles: str | None = options.column("Column with the SMILES, `smiles` by default."),
    name: str | None = options.column("Column with the name of each molecule."),
    number: int = options.option("Conformers to draw.", "N", "--number", "-n", default=20, min=1),
    window: float = options.option("Largest energy above the lowest, kcal/mol.", default=10, min=0),
    rmsd: float = options.option("Least distance of two conformers, A.", default=0.5, min=0),
    seed: int = options.option("Seed of the conformers.", "N", default=42, min=1),
    threads: int = options.option("Number of threads; 0: all cores.", "N", default=0, min=0),
    force: bool = options.FORCE,
) -> dict[str, Any]:
    """Compute the **conformers** of molecules from their SMILES, with 3-D descriptors, by RDKit.

    The other columns are copied. Salts are reduced to their largest part; conformers that are
    alike or of high energy are left out.

    ```
    bagwise conformers molecules.csv -o table.parquet
    ```
    """
    import numpy as np

    from bagwise.apps.chem._conformers import BESIDE, conformers_of, write_sdf
    from bagwise.io._table import read_all
    from bagwise.io._write_table import file_beside, write_columns

    file_beside(output, "sdf")  # rejects an unknown suffix
    molecules = output.with_suffix(".sdf")
    refuse_existing([output, molecules], force=force, inputs=[file])
    table = read_all(file)
    texts = table.pop(_column(table, smiles, _SMILES, "--smiles"))
    names = [str(each) for each in table.pop(_column(table, name, _NAMES, "--name"))]
    twice, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f"{count} molecules are called {twice!r}: average or rename them.")
    for clash in sorted(table.keys() & {*BESIDE} - {"scaffold"}):
        raise InputError(f"{file} has a column {clash!r}, as the result has: rename it.")
    how: Any = {"number": number, "window": window, "rmsd": rmsd, "seed": seed, "threads": threads}
    rows: list[dict[str, Any]] = []
    records, salts, failed, same = [], [], {}, dict[str, list[str]]()
    with progress("Computing conformers of molecules", total=len(names)) as step:
        for i, (own_name, text) in enumerate(zip(names, texts, strict=True)):
            try:
                molecule, own, is_salt = conformers_of(own_name, str(text or ""), **how)
            except InputError as error:
                failed[own_name] = str(error)
            else:
                salts += [own_name] * is_salt
                same.setdefault(molecule.GetProp("_SMILES"), []).append(own_name)
                records += [(molecule, k, {n: row[n] for n in BESIDE}) for k, row in enumerate(own)]
                rows += [row | {head: values[i] for head, values in table.items()} for row in own]
            step()
    if salts:
        note(f"{counted(len(salts), 'salt')}, such as {salts[0]}: only the largest part is used.")
    if failed:
        shown = "; ".join(f"{name}: {reason}" for name, reason in [*failed.items()][:5])
        note(f"{len(failed)} of {len(names)} molecules are left out, such as {shown}.")
    if twins := [" = ".join(own) for own in same.values() if len(own) > 1]:
        note(f"{len(twins)} of several names: {'; '.join(twins[:5])}: average or leave out.")
    if not rows:
        raise InputError("no molecule has a conformer.")
    columns = {head: np.array([row[head] for row in rows], dtype=object) for head in rows[0]}
    notes = {"bag": "molecule", "group": "scaffold", "not_features": [*BESIDE, *table]}
    write_columns(output, columns, notes=notes, force=force)
    write_sdf(molecules, records, force=force)
    n_features = len(columns) - len({*BESIDE, *table})
    done = {"molecules": len(names) - len(failed), "conformers": len(rows), "features": n_features}
    note(", ".join(counted(n, what[:-1]) for what, n in done.items()) + f": {output}, {molecules}")
    return done | {"salts": salts, "failed": failed, "written": [output, molecules]}


def _column(table: dict[str, Any], given: str | None, usual: tuple[str, ...], option: str) -> str:
    """The column that an option names, or one with a usual name."""
    found = [head for head in table if head == given or (not given and head.lower() in usual)]
    if not found:
        raise InputError(f"{option} names a column: there are {', '.join(table)}.")
    return found[0]
