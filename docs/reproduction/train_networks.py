"""Train the networks of the reproduction: a sweep of learning rates per network and data set."""

from __future__ import annotations

from experiment.study import parse

if __name__ == "__main__":
    study, options = parse(
        __doc__, choices={"network": ("vgg11", "resnet18"), "dataset": ("mnist", "fashion"), "per-class": ("13", "136")}
    )
    trained = study.case(options.network, options.dataset, int(options.per_class)).trained()
    print(f"{trained.recipe.name}: test error {trained.test_error:.4f}")
