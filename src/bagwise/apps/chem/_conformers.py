"""Conformers of molecules with 3-D descriptors, by RDKit, and key conformers for PyMOL."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._common.extras import import_extra
from bagwise._common.files import replacing
from bagwise._common.types import Array
from bagwise.exceptions import DataNotFoundError, InputError

MOST_MATCHES = 1000  # ways of mapping a molecule to itself that are compared
BESIDE = ("molecule", "conformer", "scaffold", "energy")  # columns that are not descriptors
Record = tuple[Any, int, Mapping[str, Any]]  # molecule, conformer, properties


def _chem(module: str) -> Any:
    return import_extra(f"rdkit.{module}", extra="chem")


def conformers_of(
    name: str, smiles: str, *, number: int, window: float, rmsd: float, seed: int, threads: int
) -> tuple[Any, list[dict[str, Any]], bool]:
    """Compute conformers of a molecule, and their descriptors.

    Parameters
    ----------
    name, smiles : str
        The molecule.
    number : int
        Number of conformers that are drawn.
    window : float
        Largest energy above the lowest one, in kcal/mol.
    rmsd : float
        Least distance between two conformers, of their heavy atoms, in Angstrom.
    seed : int
        Seed of the draw; not 0, with which RDKit draws the same conformer again and again.
    threads : int
        Number of threads of RDKit; 0 for one per core.

    Returns
    -------
    molecule : Mol
        The largest part of the molecule with its conformers, that of the lowest energy first, and
        its canonical SMILES as ``_SMILES``. The order of its atoms is canonical, too.
    rows : list of dict
        Name, conformer, scaffold, energy above the lowest, and descriptors of each conformer.
    is_salt : bool
        Whether there were other parts.

    Raises
    ------
    InputError
        If there is no conformer with descriptors.
    """
    chem, rows = _chem("Chem"), []
    with _chem("rdBase").BlockLogs():  # the caller reports failures
        parts = chem.GetMolFrags(chem.MolFromSmiles(smiles) or chem.Mol(), asMols=True)
        if not parts:
            raise InputError(f"RDKit cannot read the SMILES {smiles!r}")
        largest = max(parts, key=lambda part: part.GetNumHeavyAtoms())
        canonical = chem.MolToSmiles(largest)  # else conformers depend on how SMILES are written
        largest = chem.MolFromSmiles(canonical) or largest
        drawn = chem.AddHs(largest)
        energies = _drawn_conformers(drawn, number, seed, threads)
        compare = _chem("Chem.rdMolAlign").GetAllConformerBestRMS
        apart = np.zeros((len(energies), len(energies)))
        apart[np.tril_indices(len(energies), -1)] = compare(
            chem.RemoveHs(drawn), numThreads=threads, maxMatches=MOST_MATCHES
        )
        apart += apart.T
        kept: list[int] = []
        for i in np.argsort(energies, kind="stable").tolist():
            if energies[i] <= window and (apart[i, kept] >= rmsd).all():
                kept.append(i)
        molecule, every = chem.Mol(drawn), list(drawn.GetConformers())
        molecule.RemoveAllConformers()
        molecule.SetProp("_SMILES", canonical)
        scaffold = _chem("Chem.Scaffolds.MurckoScaffold").MurckoScaffoldSmiles(mol=largest) or name
        for k, i in enumerate(kept):
            molecule.AddConformer(every[i], assignId=True)
            facts = dict(zip(BESIDE, (name, f"c{k}", scaffold, energies[i]), strict=True))
            rows.append(facts | _descriptors(molecule, k))
    return molecule, rows, len(parts) > 1


def _drawn_conformers(molecule: Any, number: int, seed: int, threads: int) -> Array:
    """Embed conformers, relax them by MMFF94 or UFF; energies above the lowest, in kcal/mol."""
    all_chem = _chem("Chem.AllChem")
    how = all_chem.ETKDGv3()
    how.randomSeed, how.numThreads = seed, threads
    if not len(all_chem.EmbedMultipleConfs(molecule, number, how)):
        raise InputError("RDKit finds no conformer")
    has_mmff = all_chem.MMFFHasAllMoleculeParams(molecule)
    relax = all_chem.MMFFOptimizeMoleculeConfs if has_mmff else all_chem.UFFOptimizeMoleculeConfs
    energies = np.array([energy for _, energy in relax(molecule, numThreads=threads)])
    return energies - energies.min()


def _descriptors(molecule: Any, conformer: int) -> dict[str, float]:
    """The descriptors of a conformer: eleven of its shape, and the 60 of USRCAT."""
    found: dict[str, float] = _chem("Chem.Descriptors3D").CalcMolDescriptors3D(molecule, conformer)
    try:
        usrcat = _chem("Chem.rdMolDescriptors").GetUSRCAT(molecule, confId=conformer)
    except (ValueError, RuntimeError) as error:  # fewer than three atoms
        raise InputError(f"RDKit has no descriptors: {error}") from error
    found |= {f"usrcat_{k}": value for k, value in enumerate(usrcat)}
    if not np.isfinite([*found.values()]).all():
        raise InputError("a descriptor is not a finite number")
    return found


def write_sdf(path: Path, records: Iterable[Record], *, force: bool) -> None:
    """Write conformers with their properties to an SDF file."""
    with replacing(path, force=force) as temporary, _chem("Chem").SDWriter(str(temporary)) as file:
        for molecule, conformer, properties in records:
            molecule.SetProp("_Name", f"{properties['molecule']} {properties['conformer']}")
            for name, value in properties.items():
                molecule.SetProp(name, f"{value:.6g}" if isinstance(value, float) else str(value))
            file.write(molecule, confId=conformer)


def write_keys(source: Path, path: Path, table: Mapping[str, Array], *, force: bool) -> None:
    """Write the key conformer of each molecule with its prediction, for PyMOL.

    Parameters
    ----------
    source : Path
        The SDF file that ``bagwise conformers`` wrote.
    path : Path
        The SDF file to write.
    table : mapping of str to ndarray
        Predictions for the molecules: ``bag``, ``predicted``, ``key_instance``, and ``key_score``
        or ``key_contribution``.
    force : bool
        Whether an existing file is overwritten.
    """
    if "key_instance" not in table:
        raise InputError("the model has no key instance of a molecule: choose another method.")
    if not source.is_file():
        raise DataNotFoundError(f"no file {str(source)!r}, which `bagwise conformers` writes.")
    shown = [name for name in ("predicted", "key_score", "key_contribution") if name in table]
    rows = zip(*(table[name].tolist() for name in ("bag", "key_instance", *shown)), strict=True)
    wanted = {(str(bag), f"c{key}"): values for bag, key, *values in rows}
    found: list[Record] = []
    for molecule in _chem("Chem").SDMolSupplier(str(source), removeHs=False):
        own = {} if molecule is None else molecule.GetPropsAsDict(autoConvertStrings=False)
        which = own.get("molecule"), own.get("conformer")
        if which in wanted:
            facts = dict(zip(BESIDE[:2], which, strict=True))
            found.append((molecule, -1, facts | dict(zip(shown, wanted[which], strict=True))))
    if len(found) != len(wanted):
        raise InputError(f"{source} has key conformers of {len(found)} of {len(wanted)} molecules.")
    write_sdf(path, found, force=force)
