"""
Instance annotation: letters of words
=====================================

The bags are the words of *Jabberwocky*, and the instances are images of printed letters, described
by 16 features each (box, ink, edges). For each word only the set of its letters is known, not their
positions. This example predicts the letter of each image.
"""

# %%
# A word is a bag, a letter is an instance, and the label set of the word is the set of its letters.
from bagwise.datasets import load_letter_carroll

data = load_letter_carroll(random_state=0)
print(data.bags)
for word in range(3):
    letters = "".join(data.classes[data.label_sets[word] == 1])
    print(f"{data.bags.sizes[word]} letters out of {{{letters}}}: {data.bags.ids[word]}")

# %%
# ORed logistic regression (ORLR) learns one weight vector per letter from all words together: a
# letter that occurs in two words must have similar features in both.
import numpy as np
from sklearn.preprocessing import StandardScaler

from bagwise.annotation import ORedLogisticRegression
from bagwise.preprocessing import InstanceTransformer

bags = InstanceTransformer(StandardScaler()).fit_transform(data.bags)
model = ORedLogisticRegression().fit(bags, data.label_sets)
named = model.annotate(bags, data.label_sets)
print(f"{np.mean(named == data.instance_labels):.2f} of the letters are named rightly")

# %%
# The predicted poem (capital letters are errors):
spelled = [
    "".join(
        letter.lower() if ok else letter
        for letter, ok in zip(data.classes[row], row == true, strict=True)
    )
    for row, true in zip(bags.split(named), bags.split(data.instance_labels), strict=True)
]
for first in (0, 6, 12, 18):
    print(" ".join(spelled[first : first + 6]))

# %%
# The plot shows the least certain letters. The probabilities add up to one; letters outside the
# label set of the word have probability zero.
from bagwise.displays import PosteriorDisplay

PosteriorDisplay.from_estimator(model, bags, data.label_sets, classes=data.classes)
