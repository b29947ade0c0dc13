"""Ratios against peers, both sides measured in one run. `make bench` prints them all."""
