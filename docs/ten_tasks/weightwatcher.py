"""What WeightWatcher has of the ten tasks; it skips layers with fewer than 8 or more than 15,000 singular values."""

import weightwatcher
from setup import model

# task: weights' power laws, layer by layer
watcher = weightwatcher.WeightWatcher(model=model)
print(watcher.analyze())
