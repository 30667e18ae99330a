"""What the scripts of the reproduction share: data, networks, training, storing."""
