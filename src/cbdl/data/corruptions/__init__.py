"""Corrupted images: the 18 kinds of CIFAR-10-C and the 15 of MNIST-C (six of them in both), five severities each.

Our own batched transforms after the same ideas, not the same pixels: on any size, grey or colour, with a seed.
Severities are chosen so that the distance to the clean image grows with each step, on images of 28 pixels and more; on
smaller ones a mild blur is less than a pixel and changes nothing.
"""

from cbdl.data.corruptions.apply import CIFAR10_C, CORRUPTIONS, MNIST_C, corrupt

__all__ = ["CIFAR10_C", "CORRUPTIONS", "MNIST_C", "corrupt"]
