"""How good the answers are: conformal calibration of regions."""
