"""The kernels of AdaptiveReleaf: a sum of tables of one and of two features, learnt for each action."""
