"""
Key instances: find the nine
============================

A bag contains about ten handwritten digits. Its label states whether a nine is among them, but not
which digit it is. This example fits MI-SVM on such bags and checks whether the key instances of new
bags are nines.
"""

# %%
# The bags are generated from the digits of scikit-learn, which have 8 x 8 pixels each; half of them
# contain a nine.
from bagwise.datasets import make_digit_bags

data = make_digit_bags(n_bags=400, target=9, random_state=0)
train, test = data.bags[:300], data.bags[300:]
y_train, y_test = data.y[:300], data.y[300:]
print(train)

# %%
# The baseline ``SingleInstanceClassifier`` (SIL) gives every digit the label of its bag, so about
# nine of ten digits of a positive bag have a wrong label. ``BagMarginSVM`` (MI-SVM) selects the
# digit with the highest score in each positive bag, fits an SVM on the selected digits, and
# repeats. A linear kernel is enough here; pixels range from 0 to 16, hence the small C.
from bagwise.classification import BagMarginSVM, SingleInstanceClassifier

plain = SingleInstanceClassifier().fit(train, y_train)
model = BagMarginSVM(C=0.01, kernel="linear").fit(train, y_train)
for name, fitted in (("single instances", plain), ("MI-SVM", model)):
    print(f"{name:17} {fitted.score(test, y_test):.2f} of the new bags right")

# %%
# In the new bags with a nine, how often is the key instance a nine? (A random guess: one in ten.)
import numpy as np

with_nine = test[y_test == 1]
digits = [inside for inside, y in zip(data.bags.split(data.digits)[300:], y_test, strict=True) if y]
keys = model.key_instances(with_nine, label=1)
hits = [inside[key] == 9 for inside, key in zip(digits, keys, strict=True)]
print(f"the key instance is a nine in {np.mean(hits):.2f} of these bags")

# %%
# Eight of these bags, with a frame around the key instance.
from bagwise.displays import KeyInstanceDisplay

KeyInstanceDisplay.from_estimator(model, with_nine, image_shape=(8, 8), label=1, max_bags=8)
