"""Our accuracy beside published numbers, with the same protocol: `make reproduce`."""

from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.classification import CitationKNN, SetKernelSVM, SingleInstanceClassifier
from bagwise.datasets import load_musk1
from bagwise.preprocessing import InstanceTransformer

# model, published accuracy, reference
MUSK1 = {
    "NSK, plain sum, gamma 1/d": (
        SetKernelSVM(C=1.0, gamma="auto", normalization=None),
        "0.891 (misvm and sawmil, RBF, C = 1)",
    ),
    "NSK, feature-space norm, C = 1": (SetKernelSVM(C=1.0), ""),
    "NSK, feature-space norm (default)": (SetKernelSVM(), ""),
    "minimax kernel": (SetKernelSVM(bag_kernel="minimax"), ""),
    "Citation-kNN, 2 references, 4 citers": (
        CitationKNN(),
        "0.924 (Wang and Zucker 2000, leave one out)",
    ),
    "SIL, linear SVM": (SingleInstanceClassifier(), ""),
}


def main():
    data = load_musk1()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    rows = data.bags.instances.astype(float)
    before = data.bags.with_instances(StandardScaler().fit_transform(rows))
    raw = data.bags.with_instances(rows)
    print("Musk1, stratified 5-fold (shuffled, seed 0), instances standardised")
    print(f"{'':38}{'inside folds':>14}{'before split':>14}  published")
    for name, (model, published) in MUSK1.items():
        inside = make_pipeline(InstanceTransformer(StandardScaler()), model)
        scores = [
            cross_val_score(inside, raw, data.y, cv=folds).mean(),
            cross_val_score(model, before, data.y, cv=folds).mean(),
        ]
        print(f"{name:38}{scores[0]:14.3f}{scores[1]:14.3f}  {published}")


if __name__ == "__main__":
    main()
