"""Steps of Algorithm 1 that take more than a line of `cbdl.model`: fitting, rows that are left out, missing inputs."""
