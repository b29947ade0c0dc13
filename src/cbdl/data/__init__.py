"""Data sets of images: readers of the public files, downloads, conversions, corruptions."""

from cbdl.data.catalogue import CATALOGUE, DataSet, data_set
from cbdl.data.corruptions import CIFAR10_C, CORRUPTIONS, MNIST_C, corrupt
from cbdl.data.fetch import FetchError, fetch, folder
from cbdl.data.formats import DataError, read_cifar, read_idx, read_svhn
from cbdl.data.images import Images
from cbdl.data.load import NAMES, load

__all__ = [
    "CATALOGUE",
    "CIFAR10_C",
    "CORRUPTIONS",
    "MNIST_C",
    "NAMES",
    "DataError",
    "DataSet",
    "FetchError",
    "Images",
    "corrupt",
    "data_set",
    "fetch",
    "folder",
    "load",
    "read_cifar",
    "read_idx",
    "read_svhn",
]


def __dir__() -> list[str]:
    return sorted(__all__)
